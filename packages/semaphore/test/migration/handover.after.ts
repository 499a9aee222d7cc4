import { createSemaphore } from "@kit/semaphore";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);

// The scheduler: acquires, and lets go of the permit here. One that was waited for lasts two seconds at first: extend it.
const scheduler = createSemaphore(redis, "jobs", { permits: 2, leaseMs: 60_000 });
const scheduled = await scheduler.acquire();
await scheduled.extend();
const message = scheduled.handOver();

// The handler, elsewhere.
const handler = createSemaphore(redis, "jobs", { permits: 2 });
const permit = await handler.resume(message);
console.log(permit.isHeld); // prints: true
await permit.release();

await scheduler.close();
await handler.close();
redis.disconnect();
