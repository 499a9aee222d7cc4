import { setTimeout as sleep } from "node:timers/promises";
import { createLock } from "@kit/lock";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const lock = createLock(redis, { leaseMs: 3_000 });

// Renewed each third of the lease, however it was acquired.
const lease = await lock.acquire("import");
await sleep(3_600);
console.log(lease.isHeld); // prints: true

await lease.release();
await lock.close();
redis.disconnect();
