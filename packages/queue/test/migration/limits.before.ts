import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";

const connection = new Redis(process.env["REDIS_URL"]!, { maxRetriesPerRequest: null });
const queue = new Queue("webhooks", { connection });
// One at a time among all workers, and 100 per second among all workers with this limiter.
await queue.setGlobalConcurrency(1);

let [running, most, done] = [0, 0, 0];
const options = { connection, concurrency: 10, limiter: { max: 100, duration: 1_000 } };
const worker = new Worker(
  "webhooks",
  async () => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setImmediate(resolve));
    running--;
  },
  options,
);
const all = new Promise<void>((resolve) => {
  worker.on("completed", () => ++done === 5 && resolve());
});
await queue.addBulk(Array.from({ length: 5 }, (_, data) => ({ name: "send", data })));
await all;
console.log(`${most} at a time`); // prints: 1 at a time

await worker.close();
await queue.close();
connection.disconnect();
