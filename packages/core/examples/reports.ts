import { connect } from "@kit/core";
import { persistenceReport, replicaReads, replicationReport } from "@kit/core/durable";

const redis = await connect();

for (const { role, link, lagMs, behindBytes } of await replicationReport(redis))
  console.log(role, link, lagMs, behindBytes);

for (const { appendOnly, atRisk } of await persistenceReport(redis))
  console.log(appendOnly?.isOn, atRisk?.kill.text, atRisk?.powerCut.changes);

// Without a replica the master answers.
const near = replicaReads(redis, { maxStaleMs: 500 });
const { value, staleMs, from } = await near.call("GET", "price:lamp");
console.log(value, staleMs, from);

near.close();
await redis.close();
