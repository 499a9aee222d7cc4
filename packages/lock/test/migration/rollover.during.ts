import { createLock } from "@kit/lock";
import { Redis } from "ioredis";
import Redlock from "redlock5";

const redis = new Redis(process.env["REDIS_URL"]!);
const lock = createLock(redis);
// It waits without an end, as ours does.
const redlock = new Redlock([redis], { retryCount: -1 });

/** Holds both, the new one first: everywhere in this order. */
async function exclusively(name: string, routine: () => Promise<void>): Promise<void> {
  await lock.using(name, () => redlock.using([name], 10_000, routine));
}

await exclusively("item:42", async () => {
  const { state } = await lock.inspect("item:42");
  console.log(state, await redis.exists("item:42")); // prints: held 1
});

await lock.close();
redis.disconnect();
