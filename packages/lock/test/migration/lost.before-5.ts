import { once } from "node:events";
import { Redis } from "ioredis";
import Redlock from "redlock5";

const redis = new Redis(process.env["REDIS_URL"]!);
const redlock = new Redlock([redis], { retryCount: 0, automaticExtensionThreshold: 200 });

const done = redlock.using(["import"], 400, async (signal) => {
  // Somebody flushes the server.
  await redis.flushall();
  await once(signal, "abort");
  console.log(signal.error !== undefined); // prints: true
});
// It rejects with the failure of the release.
await done.catch(() => console.log("lost")); // prints: lost

redis.disconnect();
