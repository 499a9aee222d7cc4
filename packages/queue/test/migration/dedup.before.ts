import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";

const connection = new Redis(process.env["REDIS_URL"]!, { maxRetriesPerRequest: null });
const queue = new Queue("search", { connection });

// The job with the latest data, once 1 s after the last add.
const options = { delay: 1_000, deduplication: { id: "user 7", ttl: 1_000, extend: true, replace: true } };
for (const text of ["h", "he", "hey"]) await queue.add("index", { text }, options);

const worker = new Worker("search", async ({ data }) => console.log(data.text), { connection }); // prints: hey
await new Promise((resolve) => worker.once("completed", resolve));

await worker.close();
await queue.close();
connection.disconnect();
