import { createQueue } from "@kit/queue";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<{ email: (data: { to: string }) => void }>(redis, "mail", {
  maxAttempts: 5,
  backoff: { firstMs: 1_000 },
});

const worker = queue.work(
  {
    email: ({ data }) => console.log(`to ${data.to}`), // prints: to ann@example.org
  },
  { concurrency: 10 },
);
const completed = new Promise((resolve) => worker.once("completed", resolve));
await queue.add("email", { to: "ann@example.org" });
await completed;

await queue.close();
redis.disconnect();
