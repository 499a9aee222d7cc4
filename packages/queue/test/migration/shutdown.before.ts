import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";

const connection = new Redis(process.env["REDIS_URL"]!, { maxRetriesPerRequest: null });
const queue = new Queue("videos", { connection });
let finish = (): void => undefined;
let begin = (): void => undefined;
const active = new Promise<void>((resolve) => (begin = resolve));
const worker = new Worker(
  "videos",
  () =>
    new Promise<void>((resolve) => {
      finish = resolve;
      begin();
    }),
  { connection },
);
await queue.add("encode", { file: "a.mov" });
await active;

// On SIGTERM. It waits for the running jobs, however long they take.
const closed = worker.close();
finish();
await closed;
console.log("the job has ended"); // prints: the job has ended

await queue.close();
connection.disconnect();
