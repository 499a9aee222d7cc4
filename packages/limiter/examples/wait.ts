import { connect } from "@kit/core";
import { createLimiter } from "@kit/limiter";

const redis = await connect();
// The API of a partner allows 20 calls a second for each account, without bursts.
const partner = createLimiter(redis, "partner", { limits: { rate: { count: 20, perMs: 1_000, burst: 1 } } });

const from = performance.now();
for (const order of ["a", "b", "c"]) {
  await partner.wait("account-7", { waitMs: 30_000 });
  console.log(`sends order ${order}`);
}
console.log(performance.now() - from >= 100 ? "evenly spread" : "too fast");
// prints: sends order a
// prints: sends order b
// prints: sends order c
// prints: evenly spread

await partner.close();
await redis.close();
