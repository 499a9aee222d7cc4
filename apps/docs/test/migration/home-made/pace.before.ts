import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);

/** Waits until one more of 20 calls a second may begin. */
async function turn(): Promise<void> {
  for (;;) {
    const key = `limit:crm:${Math.floor(Date.now() / 1_000)}`;
    const [count] = (await redis.multi().incr(key).expire(key, 2).exec()) ?? [];
    if (Number(count?.[1]) <= 20) return;
    await sleep(50);
  }
}

for (const customer of ["ann", "bob"]) {
  await turn();
  console.log(`updated ${customer}`);
}
// prints: updated ann
// prints: updated bob

redis.disconnect();
