import { Redis } from "ioredis";
import { RateLimiterMemory, RateLimiterRedis } from "rate-limiter-flexible";

// No server listens here.
const redis = new Redis({ port: 1, retryStrategy: () => 50 });
redis.on("error", () => undefined);
const limiter = new RateLimiterRedis({
  storeClient: redis,
  points: 4,
  duration: 60,
  rejectIfRedisNotReady: true,
  // Two processes, so each has half.
  insuranceLimiter: new RateLimiterMemory({ points: 2, duration: 60 }),
});

for (let call = 1; call <= 3; call++)
  await limiter.consume("ann").then(
    () => console.log("allowed"),
    () => console.log("refused"),
  );
// prints: allowed
// prints: allowed
// prints: refused

redis.disconnect();
