import { Queue, UnrecoverableError, Worker } from "bullmq";
import { Redis } from "ioredis";

const connection = new Redis(process.env["REDIS_URL"]!, { maxRetriesPerRequest: null });
const queue = new Queue("payments", { connection });
let isBankOpen = false;

const worker = new Worker(
  "payments",
  async ({ data, attemptsMade }) => {
    if (data.card === "") throw new UnrecoverableError("There is no card");
    if (!isBankOpen) throw new Error(`The bank is closed (attempt ${attemptsMade + 1})`);
  },
  { connection },
);
const exhausted = new Promise<void>((resolve) => {
  worker.on("failed", (job) => job && job.attemptsMade >= (job.opts.attempts ?? 1) && resolve());
});
const backoff = { type: "exponential", delay: 20 };
const { id = "" } = await queue.add("charge", { card: "4711" }, { attempts: 3, backoff });
await exhausted;

const failed = await queue.getJob(id);
console.log(failed?.failedReason); // prints: The bank is closed (attempt 3)
isBankOpen = true;
const completed = new Promise((resolve) => worker.once("completed", resolve));
await failed?.retry();
await completed;

await worker.close();
await queue.close();
connection.disconnect();
