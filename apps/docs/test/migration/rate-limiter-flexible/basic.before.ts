import { Redis } from "ioredis";
import { RateLimiterRedis } from "rate-limiter-flexible";

const redis = new Redis(process.env["REDIS_URL"]!);
const logins = new RateLimiterRedis({ storeClient: redis, keyPrefix: "logins", points: 3, duration: 60 });

for (let attempt = 1; attempt <= 4; attempt++)
  try {
    const { remainingPoints } = await logins.consume("203.0.113.7");
    console.log(`allowed, ${remainingPoints} left`);
  } catch (refusal) {
    // It also rejects with an Error if Redis cannot be reached.
    if (refusal instanceof Error) throw refusal;
    console.log("refused");
  }
// prints: allowed, 2 left
// prints: allowed, 1 left
// prints: allowed, 0 left
// prints: refused

redis.disconnect();
