import { createLock } from "@kit/lock";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const lock = createLock(redis, { leaseMs: 30_000 });

await lock.using("item:42", async ({ fencingToken }) => {
  await redis.hset("item:42", { state: "sold", fencingToken });
  console.log("sold"); // prints: sold
});

await lock.close();
redis.disconnect();
