import { createLimiter } from "@kit/limiter";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const logins = createLimiter(redis, "logins", {
  limits: { perMinute: { count: 5, perMs: 60_000, algorithm: "sliding-window" } },
});
const left = async (): Promise<number> => (await logins.check("ann")).remaining;

await logins.penalize("ann", 3);
console.log(await left()); // prints: 2
await logins.reward("ann", 1);
console.log(await left()); // prints: 3
await logins.block("ann", 600_000);
console.log(await left()); // prints: 0
await logins.reset("ann");
console.log(await left()); // prints: 5

await logins.close();
redis.disconnect();
