import { createLock, LockTimeoutError } from "@kit/lock";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
// Nothing is retried: the wait is bounded by its time, and ends when the lock is free.
const lock = createLock(redis, { leaseMs: 30_000 });

const first = await lock.acquire("printer");
try {
  await lock.acquire("printer", { waitMs: 200 });
} catch (error) {
  if (!(error instanceof LockTimeoutError)) throw error;
  console.log("not within 200 ms"); // prints: not within 200 ms
}

await first.release();
await lock.close();
redis.disconnect();
