import { Queue, QueueEvents, Worker } from "bullmq";
import { Redis } from "ioredis";

const connection = new Redis(process.env["REDIS_URL"]!, { maxRetriesPerRequest: null });
const queue = new Queue("prices", { connection });
const events = new QueueEvents("prices", { connection });
await events.waitUntilReady();
const worker = new Worker("prices", async () => 12, { connection });

const job = await queue.add("price", { item: "lamp" });
console.log(await job.waitUntilFinished(events, 10_000)); // prints: 12

await events.close();
await worker.close();
await queue.close();
connection.disconnect();
