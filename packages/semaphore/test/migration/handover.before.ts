import { Redis } from "ioredis";
import { Semaphore } from "redis-semaphore";

const redis = new Redis(process.env["REDIS_URL"]!);

// The scheduler: acquires, and passes the identifier to the handler.
const scheduled = new Semaphore(redis, "jobs", 2, { lockTimeout: 60_000, refreshInterval: 0 });
await scheduled.acquire();
const message = scheduled.identifier;

// The handler, elsewhere.
const handled = new Semaphore(redis, "jobs", 2, { identifier: message, acquiredExternally: true });
await handled.acquire();
console.log(handled.isAcquired); // prints: true
await handled.release();

redis.disconnect();
