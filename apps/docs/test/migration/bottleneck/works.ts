import { createLimiter } from "@kit/limiter";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const crm = createLimiter(redis, "crm", { limits: { rate: { count: 20, perMs: 1_000, burst: 1 } } });

const update = async (customer: string): Promise<void> => {
  await crm.wait("account");
  console.log(`updated ${customer}`);
};
await update("ann"); // prints: updated ann

await redis.flushall();
await update("bob"); // prints: updated bob
await update("cy"); // prints: updated cy

await crm.close();
redis.disconnect();
