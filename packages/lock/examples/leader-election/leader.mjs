import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import { append } from "./journal.mjs";

// It may start in an outage of ten minutes.
const redis = await connect({ url: process.env["REDIS_URL"], deadlineMs: 600_000 });
const lock = createLock(redis);
const ending = new AbortController();
process.once("SIGTERM", () => ending.abort());

while (!ending.signal.aborted) {
  try {
    // Waits for its turn, and leads until SIGTERM, a loss or an error.
    await lock.using("leader", lead, { signal: ending.signal });
  } catch (error) {
    if (!ending.signal.aborted) console.log(`no leader: ${error.message}`);
    await sleep(500);
  }
}
await lock.close();
await redis.close();

async function lead({ fencingToken, signal }) {
  console.log(`leads: ${fencingToken}`);
  const over = AbortSignal.any([signal, ending.signal]);
  while (!over.aborted) {
    const isLeader = await append.run(redis, { journal: "work" }, { fence: fencingToken, text: process.pid });
    if (!isLeader) throw new Error("refused, another leads since");
    await sleep(100, undefined, { signal: over }).catch(() => undefined);
  }
}
