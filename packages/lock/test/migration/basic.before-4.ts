import { Redis } from "ioredis";
import Redlock from "redlock4";

const redis = new Redis(process.env["REDIS_URL"]!);
const redlock = new Redlock([redis]);

const lock = await redlock.lock("item:42", 10_000);
try {
  console.log("sold"); // prints: sold
} finally {
  await lock.unlock();
}

redis.disconnect();
