import { createLimiter } from "@kit/limiter";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
// Once, where the program starts; not for each call.
const logins = createLimiter(redis, "logins", {
  limits: { perMinute: { count: 3, perMs: 60_000, algorithm: "sliding-window" } },
});

for (let attempt = 1; attempt <= 4; attempt++) {
  const { allowed, remaining } = await logins.consume("203.0.113.7");
  console.log(allowed ? `allowed, ${remaining} left` : "refused");
}
// prints: allowed, 2 left
// prints: allowed, 1 left
// prints: allowed, 0 left
// prints: refused

await logins.close();
redis.disconnect();
