import { createLimiter, LimiterTimeoutError } from "@kit/limiter";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const sms = createLimiter(redis, "sms", { limits: { rate: { count: 1, perMs: 60_000, burst: 1 } } });

for (const to of ["ann", "bob"])
  try {
    // The longest wait, instead of the longest queue.
    await sms.wait("all", { waitMs: 5_000 });
    console.log(`sent to ${to}`);
  } catch (error) {
    if (!(error instanceof LimiterTimeoutError)) throw error;
    console.log(`dropped ${to}`);
  }
// prints: sent to ann
// prints: dropped bob

await sms.close();
redis.disconnect();
