import { createSemaphore } from "@kit/semaphore";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const memory = createSemaphore(redis, "memory", { permits: 8 });

const large = await memory.acquire({ weight: 6 });
const small = await memory.tryAcquire({ weight: 3 });
console.log(small !== null); // prints: false

await large.release();
await memory.close();
redis.disconnect();
