import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import { cleanQueue, purgeQueue } from "@kit/queue/manage";

const redis = await connect();
const queue = createQueue(redis, "old");
await queue.add("report", { of: "sales" });
await queue.add("report", { of: "stock" }, { delayMs: 60_000 });

const olderThanMs = 7 * 86_400_000;
console.log(await cleanQueue(redis, { queue: "old" }, { state: "dead", olderThanMs, run: true })); // prints: 0

await queue.close();
const { jobs } = await purgeQueue(redis, { queue: "old" }); // only shows what it would delete
console.log(jobs); // prints: 2
await purgeQueue(redis, { queue: "old" }, { run: true });
await redis.close();
