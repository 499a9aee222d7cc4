import { Queue, QueueEvents, Worker } from "bullmq";
import { Redis } from "ioredis";

const connection = new Redis(process.env["REDIS_URL"]!, { maxRetriesPerRequest: null });
const queue = new Queue("mail", { connection });
const events = new QueueEvents("mail", { connection, lastEventId: "0" });
await events.waitUntilReady();

const seen = new Promise<void>((resolve) => {
  events.on("failed", ({ failedReason }) => console.log(`failed: ${failedReason}`)); // prints: failed: mailbox full
  events.on("completed", () => {
    console.log("completed"); // prints: completed
    resolve();
  });
});
const worker = new Worker(
  "mail",
  async ({ data }) => {
    if (data.to === "ann") throw new Error("mailbox full");
  },
  { connection },
);
await queue.add("email", { to: "ann" });
await queue.add("email", { to: "bob" });
await seen;

await events.close();
await worker.close();
await queue.close();
connection.disconnect();
