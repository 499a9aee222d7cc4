import { createLock } from "@kit/lock";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const lock = createLock(redis);

// One after the other, in the same order everywhere: else two callers can wait for each other.
const [first = "", second = ""] = ["account:bob", "account:ann"].toSorted();
await lock.using(first, async () => {
  await lock.using(second, async () => {
    console.log("moved"); // prints: moved
  });
});

await lock.close();
redis.disconnect();
