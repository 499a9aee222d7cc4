import { createLock } from "@kit/lock";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
// Once, where the program starts; not for each call.
const lock = createLock(redis);

await lock.using("item:42", () => {
  console.log("sold"); // prints: sold
});

await lock.close();
redis.disconnect();
