import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);

/** One at a time, on all machines. */
async function alone(name: string, routine: () => Promise<void>): Promise<void> {
  while ((await redis.set(`lock:${name}`, "1", "EX", 30, "NX")) === null) await sleep(50);
  try {
    await routine();
  } finally {
    await redis.del(`lock:${name}`);
  }
}

await alone("item:42", async () => {
  await redis.hset("item:42", { state: "sold" });
  console.log("sold"); // prints: sold
});

redis.disconnect();
