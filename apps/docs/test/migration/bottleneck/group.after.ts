import { createLimiter } from "@kit/limiter";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
// For each customer: ten calls together, then one each tenth of a second.
const api = createLimiter(redis, "api", { limits: { rate: { count: 10, perMs: 1_000 } } });

for (const customer of ["ann", "bob", "ann"]) {
  await api.wait(customer, { tokens: 2 });
  console.log(`asked for ${customer}`);
}
// prints: asked for ann
// prints: asked for bob
// prints: asked for ann

await api.close();
redis.disconnect();
