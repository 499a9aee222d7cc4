import { Redis } from "ioredis";
import Redlock from "redlock4";

const redis = new Redis(process.env["REDIS_URL"]!);
const redlock = new Redlock([redis], { retryCount: 4, retryDelay: 50, retryJitter: 10 });

const first = await redlock.lock("printer", 30_000);
try {
  await redlock.lock("printer", 30_000);
} catch (error) {
  if (!(error instanceof Redlock.LockError)) throw error;
  console.log("not within 200 ms"); // prints: not within 200 ms
}

await first.unlock();
redis.disconnect();
