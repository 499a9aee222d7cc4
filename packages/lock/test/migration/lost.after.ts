import { once } from "node:events";
import { createLock, LockLostError } from "@kit/lock";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const lock = createLock(redis, { leaseMs: 2_000 });

const done = lock.using("import", async ({ signal }) => {
  // Somebody flushes the server.
  await redis.flushall();
  await once(signal, "abort");
  console.log(signal.reason instanceof LockLostError); // prints: true
});
await done.catch(() => console.log("lost")); // prints: lost

await lock.close();
redis.disconnect();
