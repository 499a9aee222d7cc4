// A process that uses a lock and then has nothing more to do: it must end by itself.
//   closing.mjs <close|hold|absent> <url> <prefix>
import assert from "node:assert/strict";
import { createLock } from "@kit/lock";

const { Redis } = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");
const [how, url, prefix] = process.argv.slice(2);
// The parent's channel must not keep it alive either.
process.channel?.unref();
const redis = new Redis(url);
const lock = createLock(redis, { prefix });

if (how === "close") {
  const lease = await lock.acquire("chest");
  const waiting = lock.acquire("chest");
  await new Promise((resolve) => lock.once("waiting", resolve));
  await lease.release();
  await waiting;
  await lock.close({ timeoutMs: 50 });
  await redis.quit();
} else if (how === "hold") {
  await lock.acquire("chest");
  await redis.quit();
} else {
  await assert.rejects(lock.acquire("chest"), { code: "KIT_UNAVAILABLE", address: new URL(url).host });
  // Before close(): from then on the client prints its own errors.
  redis.disconnect();
  await lock.close();
}
