import { createSemaphore } from "@kit/semaphore";
import { Redis } from "ioredis";
import { Semaphore as OldSemaphore } from "redis-semaphore";

const redis = new Redis(process.env["REDIS_URL"]!);
const semaphore = createSemaphore(redis, "renderers", { permits: 5 });

/** Holds both, the new one first: everywhere in this order. */
async function render(routine: () => Promise<void>): Promise<void> {
  await semaphore.using(async () => {
    const old = new OldSemaphore(redis, "renderers", 5, { acquireTimeout: 60_000, onLockLost: () => undefined });
    await old.acquire();
    try {
      await routine();
    } finally {
      await old.release();
    }
  });
}

await render(async () => {
  const { used } = await semaphore.inspect();
  console.log(used, await redis.zcard("semaphore:renderers")); // prints: 1 1
});

await semaphore.close();
redis.disconnect();
