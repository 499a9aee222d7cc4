import { Redis } from "ioredis";
import { Semaphore } from "redis-semaphore";

const redis = new Redis(process.env["REDIS_URL"]!);

const first = new Semaphore(redis, "nightly", 1, { acquireAttemptsLimit: 1 });
const second = new Semaphore(redis, "nightly", 1, { acquireAttemptsLimit: 1 });
console.log(await first.tryAcquire()); // prints: true
console.log(await second.tryAcquire()); // prints: false

await first.release();
redis.disconnect();
