import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
await redis.lpush("mail", JSON.stringify({ to: "ann@example.org" }));

// A worker takes the job, and its process ends.
await redis.brpoplpush("mail", "mail:processing", 5);

// No worker looks there. Nothing says since when it lies there, or whether its worker lives.
console.log(await redis.llen("mail"), await redis.llen("mail:processing")); // prints: 0 1

redis.disconnect();
