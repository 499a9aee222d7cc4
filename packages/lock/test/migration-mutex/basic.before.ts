import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";

const redis = new Redis(process.env["REDIS_URL"]!);

const mutex = new Mutex(redis, "item:42");
await mutex.acquire();
try {
  console.log("sold"); // prints: sold
} finally {
  await mutex.release();
}

redis.disconnect();
