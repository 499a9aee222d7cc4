import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import { append } from "./journal.mjs";

const everyMs = Number(process.env["EVERY_MS"] ?? 60_000);
// It may start in an outage of ten minutes.
const redis = await connect({ url: process.env["REDIS_URL"], deadlineMs: 600_000 });
// A third of the wait: if the one that does the job dies, the others still wait.
const lock = createLock(redis, { leaseMs: Math.min(10_000, Math.ceil(everyMs / 3)) });
const ending = new AbortController();
process.once("SIGTERM", () => ending.abort());

for (;;) {
  const tick = Math.floor(Date.now() / everyMs) + 1;
  await sleep(tick * everyMs - Date.now(), undefined, { signal: ending.signal }).catch(() => undefined);
  if (ending.signal.aborted) break;
  try {
    // All processes queue. The first does the job and the others find it done; if the first dies, the next does it.
    await lock.using("report", (lease) => once(tick, lease), { waitMs: everyMs, signal: ending.signal });
  } catch (error) {
    console.log(`not run: ${tick}, ${error.message}`);
  }
}
await lock.close();
await redis.close();

async function once(tick, { fencingToken, signal }) {
  const [, done = 0] = (await redis.lindex("reports", -1))?.split(" ") ?? [];
  if (Number(done) >= tick) return;
  console.log(`runs: ${tick}`);
  await sleep(500, undefined, { signal }); // the job
  const isLast = await append.run(redis, { journal: "reports" }, { fence: fencingToken, text: tick });
  if (!isLast) throw new Error("refused, another has run it since");
}
