import { createLimiter } from "@kit/limiter";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const limiter = createLimiter(redis, "calls", {
  limits: { perMinute: { count: 3, perMs: 60_000, algorithm: "sliding-window" } },
});

/** At most three calls a minute of each user. */
async function isAllowed(user: string): Promise<boolean> {
  return (await limiter.consume(user)).allowed;
}

for (let call = 1; call <= 4; call++) console.log(call, await isAllowed("ann"));
// prints: 1 true
// prints: 2 true
// prints: 3 true
// prints: 4 false

await limiter.close();
redis.disconnect();
