// A process that waits for a lock, ends its client without closing the lock, and has nothing more to do: it must end.
//   ending.mjs <quit|disconnect|close> <waits|waited> <isolate?> <url> <prefix>
import assert from "node:assert/strict";
import { connect } from "@kit/core";
import { createLock } from "@kit/lock";

const { Redis } = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");
const [how, what, isolate, url, prefix] = process.argv.slice(2);
// The parent's channel must not keep it alive either.
process.channel?.unref();
const redis = how === "close" ? await connect({ url, deadlineMs: 60_000 }) : new Redis(url);
const lock = createLock(redis, { prefix, isolate: isolate === "true" });

const lease = await lock.acquire("chest");
const waiting = lock.acquire("chest");
await new Promise((resolve) => lock.once("waiting", resolve));
if (what === "waits") {
  const refused = assert.rejects(waiting, { code: "KIT_CLOSED" });
  await redis[how]();
  await refused;
} else {
  await lease.release();
  await waiting;
  await redis[how]();
}
