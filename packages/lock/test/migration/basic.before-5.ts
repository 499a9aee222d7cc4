import { Redis } from "ioredis";
import Redlock from "redlock5";

const redis = new Redis(process.env["REDIS_URL"]!);
const redlock = new Redlock([redis]);

await redlock.using(["item:42"], 10_000, async () => {
  console.log("sold"); // prints: sold
});

redis.disconnect();
