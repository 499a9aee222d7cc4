// A process that uses a semaphore and then has nothing more to do: it must end by itself.
//   closing.mjs <close|hold> <url> <prefix>
import { createSemaphore } from "@kit/semaphore";

const { Redis } = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");
const [how, url, prefix] = process.argv.slice(2);
// The parent's channel must not keep it alive either.
process.channel?.unref();
const redis = new Redis(url);
const semaphore = createSemaphore(redis, "renderer", { permits: 1, prefix });

const permit = await semaphore.acquire();
if (how === "close") {
  const waiting = semaphore.acquire();
  await new Promise((resolve) => semaphore.once("waiting", resolve));
  await permit.release();
  await waiting;
  await semaphore.close({ timeoutMs: 50 });
}
await redis.quit();
