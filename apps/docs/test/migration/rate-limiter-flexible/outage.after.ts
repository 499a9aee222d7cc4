import { createLimiter } from "@kit/limiter";
import { Redis } from "ioredis";

// No server listens here.
const redis = new Redis({ port: 1, retryStrategy: () => 50 });
const limiter = createLimiter(redis, "api", {
  limits: { perMinute: { count: 4, perMs: 60_000 } },
  deadlineMs: 200,
  onUnavailable: "local",
  processes: 2,
});

for (let call = 1; call <= 3; call++) {
  const { allowed } = await limiter.consume("ann");
  console.log(allowed ? "allowed" : "refused");
}
// prints: allowed
// prints: allowed
// prints: refused

await limiter.close();
redis.disconnect();
