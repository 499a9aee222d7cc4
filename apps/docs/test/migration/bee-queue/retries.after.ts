import { createQueue } from "@kit/queue";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<{ charge: (data: { card: string }) => void }>(redis, "payments");
let isBankOpen = false;

const worker = queue.work({
  charge: ({ attempt }) => {
    if (!isBankOpen) throw new Error(`The bank is closed (attempt ${attempt})`);
  },
});
const dead = new Promise((resolve) => worker.once("dead", resolve));
const backoff = { firstMs: 20, factor: 1, jitter: 0 };
await queue.add("charge", { card: "4711" }, { maxAttempts: 3, backoff });
await dead;

const [letter] = await queue.deadLetters();
console.log(`${letter?.error?.name}: ${letter?.error?.message}`); // prints: Error: The bank is closed (attempt 3)
isBankOpen = true;
const completed = new Promise((resolve) => worker.once("completed", resolve));
await queue.redrive([letter!.id]);
await completed;

await queue.close();
redis.disconnect();
