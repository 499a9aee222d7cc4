// A process that counts and then has nothing more to do: it must end by itself.
//   ending.mjs <close|leave> <url> <prefix>
import { createStats } from "@kit/stats";
import { Redis } from "ioredis";

const [how, url, prefix] = process.argv.slice(2);
// The parent's channel must not keep it alive either.
process.channel?.unref();
const redis = new Redis(url);
const stats = createStats(redis, { prefix, flushMs: 60_000 });
await redis.ping();
stats.counter("ending_total").inc();
if (how === "close") await stats.close();
await redis.quit();
