import { createLimiter } from "@kit/limiter";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const logins = createLimiter(redis, "logins", {
  limits: { perMinute: { count: 1, perMs: 60_000 }, perDay: { count: 50, perMs: 86_400_000 } },
});

for (let attempt = 1; attempt <= 2; attempt++) {
  const { allowed, refusedBy } = await logins.consume("ann");
  console.log(allowed ? "allowed" : `refused by ${refusedBy}`);
}
// prints: allowed
// prints: refused by perMinute

await logins.close();
redis.disconnect();
