import { createLock } from "@kit/lock";
import { createCompatibleLock } from "@kit/lock/compatible";
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";

const redis = new Redis(process.env["REDIS_URL"]!);
const lock = createLock(redis);
const compatible = createCompatibleLock(redis, { keyPrefix: "mutex:" });

/** Holds both, the new one first: everywhere in this order. */
async function exclusively(name: string, routine: () => Promise<void>): Promise<void> {
  await lock.using(name, () => compatible.using(name, routine));
}

await exclusively("item:42", async () => {
  // Neither a process with the old code nor one with the new code alone gets in.
  const old = new Mutex(redis, "item:42", { acquireAttemptsLimit: 1 });
  console.log(await old.tryAcquire()); // prints: false
  console.log(await lock.tryAcquire("item:42")); // prints: null
});

await compatible.close();
await lock.close();
redis.disconnect();
