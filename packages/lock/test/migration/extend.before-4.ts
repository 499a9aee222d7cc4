import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import Redlock from "redlock4";

const redis = new Redis(process.env["REDIS_URL"]!);
const redlock = new Redlock([redis]);

let lock = await redlock.lock("import", 6_000);
for (let part = 1; part <= 3; part++) {
  await sleep(600);
  // Not renewed by itself: each part begins with a full length again.
  lock = await lock.extend(6_000);
}
console.log(lock.expiration > Date.now()); // prints: true

await lock.unlock();
redis.disconnect();
