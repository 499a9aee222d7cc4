import { createLock } from "@kit/lock";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const lock = createLock(redis);

// All or none, in whatever order.
await lock.usingAll(["account:bob", "account:ann"], async () => {
  console.log("moved"); // prints: moved
});

await lock.close();
redis.disconnect();
