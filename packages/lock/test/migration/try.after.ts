import { createLock } from "@kit/lock";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const lock = createLock(redis);

// One try: a lease, or null.
const first = await lock.tryAcquire("nightly");
const second = await lock.tryAcquire("nightly");
console.log(second === null); // prints: true

await first?.release();
await lock.close();
redis.disconnect();
