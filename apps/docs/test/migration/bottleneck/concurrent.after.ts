import { createLimiter } from "@kit/limiter";
import { createSemaphore } from "@kit/semaphore";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const rate = createLimiter(redis, "pdf", { limits: { rate: { count: 50, perMs: 1_000, burst: 1 } } });
const running = createSemaphore(redis, "pdf", { permits: 1 });

const render = async (page: number): Promise<void> => {
  await new Promise((resolve) => setTimeout(resolve, 30));
  console.log(`page ${page}`);
};
/** The permit first: a wait for it would use up the instant that the rate has reserved. */
const scheduled = (page: number): Promise<void> =>
  running.using(async () => {
    await rate.wait("all");
    await render(page);
  });
await Promise.all([1, 2].map(scheduled));
// prints: page 1
// prints: page 2

await rate.close();
await running.close();
redis.disconnect();
