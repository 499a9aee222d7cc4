import { createQueue } from "@kit/queue";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<{ price: (data: { item: string }) => number }>(redis, "prices");
queue.work({ price: () => 12 });

console.log(await queue.call("price", { item: "lamp" }, { timeoutMs: 5_000, waitMs: 10_000 })); // prints: 12

await queue.close();
redis.disconnect();
