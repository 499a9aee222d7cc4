import { Redis } from "ioredis";
import { RateLimiterRedis, RateLimiterUnion } from "rate-limiter-flexible";

const redis = new Redis(process.env["REDIS_URL"]!);
const perMinute = new RateLimiterRedis({ storeClient: redis, keyPrefix: "perMinute", points: 1, duration: 60 });
const perDay = new RateLimiterRedis({ storeClient: redis, keyPrefix: "perDay", points: 50, duration: 86_400 });
const logins = new RateLimiterUnion(perMinute, perDay);

for (let attempt = 1; attempt <= 2; attempt++)
  try {
    await logins.consume("ann");
    console.log("allowed");
  } catch (refusals) {
    console.log(`refused by ${Object.keys(refusals as object).join()}`);
  }
// prints: allowed
// prints: refused by perMinute

redis.disconnect();
