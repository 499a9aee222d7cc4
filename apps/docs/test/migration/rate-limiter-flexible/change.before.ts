import { Redis } from "ioredis";
import { RateLimiterRedis } from "rate-limiter-flexible";

const redis = new Redis(process.env["REDIS_URL"]!);
const logins = new RateLimiterRedis({ storeClient: redis, keyPrefix: "logins", points: 5, duration: 60 });
const left = async (): Promise<number> => (await logins.get("ann"))?.remainingPoints ?? 5;

await logins.penalty("ann", 3);
console.log(await left()); // prints: 2
await logins.reward("ann", 1);
console.log(await left()); // prints: 3
await logins.block("ann", 600);
console.log(await left()); // prints: 0
await logins.delete("ann");
console.log(await left()); // prints: 5

redis.disconnect();
