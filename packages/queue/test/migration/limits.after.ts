import { createQueue } from "@kit/queue";
import { setLimits } from "@kit/queue/manage";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<{ send: (data: number) => void }>(redis, "webhooks");
// Of the queue: one at a time, and 100 per second.
await setLimits(redis, { queue: "webhooks" }, { concurrency: 1, rate: { count: 100, perMs: 1_000 } });

let [running, most, done] = [0, 0, 0];
const worker = queue.work(
  {
    send: async () => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setImmediate(resolve));
      running--;
    },
  },
  { concurrency: 10 },
);
const all = new Promise<void>((resolve) => {
  worker.on("completed", () => ++done === 5 && resolve());
});
await queue.addAll(Array.from({ length: 5 }, (_, data) => ({ name: "send", data }) as const));
await all;
console.log(`${most} at a time`); // prints: 1 at a time

await queue.close();
redis.disconnect();
