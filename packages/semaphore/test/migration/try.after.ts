import { createSemaphore } from "@kit/semaphore";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const semaphore = createSemaphore(redis, "nightly", { permits: 1 });

// One try: a permit, or null.
const first = await semaphore.tryAcquire();
const second = await semaphore.tryAcquire();
console.log(first !== null); // prints: true
console.log(second !== null); // prints: false

await first?.release();
await semaphore.close();
redis.disconnect();
