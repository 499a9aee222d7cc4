import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";

const connection = new Redis(process.env["REDIS_URL"]!, { maxRetriesPerRequest: null });
const queue = new Queue("mail", { connection, defaultJobOptions: { attempts: 5, removeOnComplete: true } });

const worker = new Worker(
  "mail",
  async ({ name, data }) => {
    if (name === "email") console.log(`to ${data.to}`); // prints: to ann@example.org
  },
  { connection, concurrency: 10 },
);
const completed = new Promise((resolve) => worker.once("completed", resolve));
await queue.add("email", { to: "ann@example.org" }, { priority: 1 });
await completed;

await worker.close();
await queue.close();
connection.disconnect();
