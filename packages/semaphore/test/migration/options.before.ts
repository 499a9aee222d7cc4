import { Redis } from "ioredis";
import { Semaphore, TimeoutError } from "redis-semaphore";

const redis = new Redis(process.env["REDIS_URL"]!);
const options = { lockTimeout: 30_000, refreshInterval: 10_000, acquireTimeout: 200, retryInterval: 20 };

const first = new Semaphore(redis, "printer", 1, options);
const second = new Semaphore(redis, "printer", 1, options);
await first.acquire();
try {
  await second.acquire();
} catch (error) {
  if (!(error instanceof TimeoutError)) throw error;
  console.log("not within 200 ms"); // prints: not within 200 ms
}

await first.release();
redis.disconnect();
