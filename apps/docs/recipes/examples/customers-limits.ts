import { connect } from "@kit/core";
import { createQueue, SnoozeError } from "@kit/queue";
import { createSemaphore } from "@kit/semaphore";

type Jobs = { export: (data: { customer: string }) => void };
const redis = await connect();
const queue = createQueue<Jobs>(redis, "exports");
// At most 2 exports of one customer at the same time, and 10 in total.
const running = createSemaphore(redis, "exports", { permits: 10, permitsPerTenant: 2 });

let now = 0;
let most = 0;
const handlers = {
  export: async ({ data }: { data: { customer: string } }) => {
    await using permit = await running.tryAcquire({ tenant: data.customer });
    if (!permit) throw new SnoozeError(50); // another job gets this slot; in production, 1,000 is enough
    most = Math.max(most, ++now);
    await new Promise((resolve) => setTimeout(resolve, 20)); // the work
    now--;
  },
};
// A snooze is not an attempt, but after `maxSnoozes` snoozes each further one is a failed attempt.
const worker = queue.work(handlers, { concurrency: 10, maxSnoozes: 10_000 });
const done = new Promise<void>((resolve) => {
  let completed = 0;
  worker.on("completed", () => {
    if (++completed === 6) resolve();
  });
});

for (let job = 0; job < 6; job++) await queue.add("export", { customer: "ann" });
await done;
console.log(`at most ${String(most)} at the same time`); // prints: at most 2 at the same time

await queue.close();
await running.close();
await redis.close();
