import { createLock } from "@kit/lock";
import { createCompatibleLock } from "@kit/lock/compatible";
import { Redis } from "ioredis";
import Redlock from "redlock5";

const redis = new Redis(process.env["REDIS_URL"]!);
const lock = createLock(redis);
const compatible = createCompatibleLock(redis);

/** Holds both, the new one first: everywhere in this order. */
async function exclusively(name: string, routine: () => Promise<void>): Promise<void> {
  await lock.using(name, () => compatible.using(name, routine));
}

await exclusively("item:42", async () => {
  // Neither a process with the old code nor one with the new code alone gets in.
  const old = new Redlock([redis], { retryCount: 0 });
  await old.acquire(["item:42"], 10_000).catch(() => console.log("held")); // prints: held
  console.log(await lock.tryAcquire("item:42")); // prints: null
});

await compatible.close();
await lock.close();
redis.disconnect();
