import { createSemaphore, SemaphoreTimeoutError } from "@kit/semaphore";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
// Renewed each third of 30 seconds. Nothing is retried, so there is no interval.
const semaphore = createSemaphore(redis, "printer", { permits: 1, leaseMs: 30_000 });

const first = await semaphore.acquire();
try {
  await semaphore.acquire({ waitMs: 200 });
} catch (error) {
  if (!(error instanceof SemaphoreTimeoutError)) throw error;
  console.log("not within 200 ms"); // prints: not within 200 ms
}

await first.release();
await semaphore.close();
redis.disconnect();
