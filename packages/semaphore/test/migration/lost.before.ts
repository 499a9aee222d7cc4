import { Redis } from "ioredis";
import { Semaphore } from "redis-semaphore";

const redis = new Redis(process.env["REDIS_URL"]!);

const semaphore = new Semaphore(redis, "import", 1, {
  lockTimeout: 300,
  refreshInterval: 100,
  // Without it the loss is thrown where nobody can catch it.
  onLockLost: () => console.log("lost"),
});
await semaphore.acquire();

// Somebody flushes the server.
await redis.flushall();
while (semaphore.isAcquired) await new Promise(setImmediate);
// prints: lost
console.log(semaphore.isAcquired); // prints: false

redis.disconnect();
