import { Redis } from "ioredis";
import Redlock from "redlock5";

const redis = new Redis(process.env["REDIS_URL"]!);
const redlock = new Redlock([redis]);

// All or none, in one script.
await redlock.using(["account:bob", "account:ann"], 10_000, async () => {
  console.log("moved"); // prints: moved
});

redis.disconnect();
