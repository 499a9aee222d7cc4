import { createLimiter } from "@kit/limiter";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const crm = createLimiter(redis, "crm", { limits: { rate: { count: 1, perMs: 1_000 } } });

for (const customer of ["ann", "bob"]) {
  await crm.wait("account", { waitMs: 30_000 });
  console.log(`updated ${customer}`);
}
// prints: updated ann
// prints: updated bob

await crm.close();
redis.disconnect();
