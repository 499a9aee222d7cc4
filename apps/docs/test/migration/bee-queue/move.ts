import Queue from "bee-queue";
import { createQueue } from "@kit/queue";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<{ email: (data: { to: string }) => void }>(redis, "mail");
const old = new Queue<{ to: string }>("mail", { redis: { url: process.env["REDIS_URL"] }, isWorker: false });

// Of the time before.
await old.createJob({ to: "ann@example.org" }).save();
await old.createJob({ to: "bob@example.org" }).retries(2).save();
await old
  .createJob({ to: "cy@example.org" })
  .delayUntil(Date.now() + 60_000)
  .save();

/** Moves what waits, once nothing adds to the old queue and its workers have ended. It may be repeated. */
async function move(state: "waiting" | "delayed"): Promise<number> {
  let moved = 0;
  for (;;) {
    // The end of the list is its head.
    const jobs = (await old.getJobs(state, { start: -500, end: -1 })).toReversed();
    if (jobs.length === 0) return moved;
    for (const { id, data, options } of jobs) {
      const { delay: dueAt, retries = 0 } = options as { delay?: number; retries?: number };
      await queue.add("email", data, { id: `bee ${id}`, maxAttempts: retries + 1, ...(dueAt && { dueAt }) });
      await old.removeJob(id);
      moved++;
    }
  }
}
console.log(await move("delayed"), await move("waiting")); // prints: 1 2

let done = 0;
const worker = queue.work({ email: ({ data }) => console.log(`to ${data.to}`) }, { concurrency: 1 });
// prints: to ann@example.org
// prints: to bob@example.org
await new Promise<void>((resolve) => {
  worker.on("completed", () => ++done === 2 && resolve());
});

await old.close();
await queue.close();
redis.disconnect();
