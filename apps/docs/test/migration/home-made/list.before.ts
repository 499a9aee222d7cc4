import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const blocking = redis.duplicate();

await redis.lpush("mail", JSON.stringify({ to: "ann@example.org" }));

// The worker.
const text = await blocking.brpoplpush("mail", "mail:processing", 5);
if (text !== null) {
  const { to } = JSON.parse(text) as { to: string };
  console.log(`to ${to}`); // prints: to ann@example.org
  await redis.lrem("mail:processing", 1, text);
}

blocking.disconnect();
redis.disconnect();
