import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const acquire = (ms: number): Promise<"OK" | null> => redis.set("lock:item:42", "1", "PX", ms, "NX");

// The first holder takes longer than its lock lasts, and the second one gets it.
await acquire(10);
while ((await acquire(30_000)) === null) await sleep(5);

// The first one has finished now, and deletes the lock of the second, which is still at work.
await redis.del("lock:item:42");
console.log(await acquire(30_000)); // prints: OK

redis.disconnect();
