import { Redis } from "ioredis";
import Redlock from "redlock5";

const redis = new Redis(process.env["REDIS_URL"]!);
const redlock = new Redlock([redis], { retryCount: 0 });

const first = await redlock.acquire(["nightly"], 10_000);
const second = await redlock.acquire(["nightly"], 10_000).catch(() => null);
console.log(second === null); // prints: true

await first.release();
redis.disconnect();
