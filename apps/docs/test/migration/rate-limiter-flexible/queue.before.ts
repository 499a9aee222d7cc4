import { Redis } from "ioredis";
import { RateLimiterQueue, RateLimiterRedis } from "rate-limiter-flexible";

const redis = new Redis(process.env["REDIS_URL"]!);
const limiter = new RateLimiterRedis({ storeClient: redis, keyPrefix: "crm", points: 1, duration: 1 });
const crm = new RateLimiterQueue(limiter);

for (const customer of ["ann", "bob"]) {
  await crm.removeTokens(1, "account");
  console.log(`updated ${customer}`);
}
// prints: updated ann
// prints: updated bob

redis.disconnect();
