import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import Redlock from "redlock5";

const redis = new Redis(process.env["REDIS_URL"]!);
const redlock = new Redlock([redis]);

let lock = await redlock.acquire(["import"], 6_000);
for (let part = 1; part <= 3; part++) {
  await sleep(600);
  // Only `using` renews by itself. The lock that comes back takes the place of the old one.
  lock = await lock.extend(6_000);
}
console.log(lock.expiration > Date.now()); // prints: true

await lock.release();
redis.disconnect();
