import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";

const connection = new Redis(process.env["REDIS_URL"]!, { maxRetriesPerRequest: null });
const queue = new Queue("reports", { connection });
await queue.upsertJobScheduler("often", { every: 100, limit: 2 }, { name: "report", data: { of: "sales" } });

let done = 0;
const worker = new Worker("reports", async ({ data }) => console.log(data.of), { connection }); // prints: sales
await new Promise<void>((resolve) => {
  worker.on("completed", () => ++done === 2 && resolve()); // prints: sales
});
await queue.removeJobScheduler("often");

await worker.close();
await queue.close();
connection.disconnect();
