import { createLock } from "@kit/lock";
import { createCompatibleLock } from "@kit/lock/compatible";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const lock = createLock(redis);
// The key of the old code: lock:item:42.
const compatible = createCompatibleLock(redis, { keyPrefix: "lock:" });

/** Holds both, the new one first: everywhere in this order. */
async function alone(name: string, routine: () => Promise<void>): Promise<void> {
  await lock.using(name, () => compatible.using(name, routine));
}

await alone("item:42", async () => {
  // A process with the old code does not get in.
  console.log(await redis.set("lock:item:42", "1", "EX", 30, "NX")); // prints: null
});

// And one with the new code does not while the old one is in.
await redis.set("lock:item:42", "1", "EX", 30, "NX");
console.log(await compatible.tryAcquire("item:42")); // prints: null

await compatible.close();
await lock.close();
redis.disconnect();
