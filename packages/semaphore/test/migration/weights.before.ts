import { Redis } from "ioredis";
import { MultiSemaphore } from "redis-semaphore";

const redis = new Redis(process.env["REDIS_URL"]!);

const large = new MultiSemaphore(redis, "memory", 8, 6);
const small = new MultiSemaphore(redis, "memory", 8, 3, { acquireAttemptsLimit: 1 });
await large.acquire();
console.log(await small.tryAcquire()); // prints: false

await large.release();
redis.disconnect();
