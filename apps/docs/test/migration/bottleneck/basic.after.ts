import { createLimiter } from "@kit/limiter";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
// Once, where the program starts. With `burst: 1` calls start at least 50 ms apart.
const crm = createLimiter(redis, "crm", { limits: { rate: { count: 20, perMs: 1_000, burst: 1 } } });

for (const customer of ["ann", "bob"]) {
  await crm.wait("account");
  console.log(`updated ${customer}`);
}
// prints: updated ann
// prints: updated bob

await crm.close();
redis.disconnect();
