import { Redis } from "ioredis";
import Redlock, { ExecutionError } from "redlock5";

const redis = new Redis(process.env["REDIS_URL"]!);
const redlock = new Redlock([redis], { retryCount: 4, retryDelay: 50, retryJitter: 10 });

const first = await redlock.acquire(["printer"], 30_000);
try {
  await redlock.acquire(["printer"], 30_000);
} catch (error) {
  if (!(error instanceof ExecutionError)) throw error;
  console.log("not within 200 ms"); // prints: not within 200 ms
}

await first.release();
redis.disconnect();
