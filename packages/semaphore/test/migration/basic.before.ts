import { Redis } from "ioredis";
import { Semaphore } from "redis-semaphore";

const redis = new Redis(process.env["REDIS_URL"]!);

const semaphore = new Semaphore(redis, "renderers", 5);
await semaphore.acquire();
try {
  console.log("rendering"); // prints: rendering
} finally {
  await semaphore.release();
}

redis.disconnect();
