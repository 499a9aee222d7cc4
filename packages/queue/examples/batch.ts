import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import { batched } from "@kit/queue/batch";

type Jobs = { visit: (data: { page: string }) => void };
const redis = await connect();
const visits = createQueue<Jobs>(redis, "visits", { maxAttempts: 3, backoff: { firstMs: 20, jitter: 0 } });
const table: string[] = []; // your database

const worker = visits.work(
  {
    visit: batched({ size: 100, waitMs: 50 }, (jobs) => {
      console.log(`a batch of ${String(jobs.length)}`);
      // One outcome for each job: an Error is a failed attempt.
      return jobs.map(({ data }) => (data.page === "" ? new Error("There is no page") : void table.push(data.page)));
    }),
  },
  { concurrency: 100 },
);
worker.on("failed", ({ error }) => console.log(String(error)));

const dead = new Promise((resolve) => worker.once("dead", resolve));
await visits.addAll(["/", "/prices", "", "/about"].map((page) => ({ name: "visit", data: { page } })));
await dead;
// prints: a batch of 4
// prints: Error: There is no page
// prints: a batch of 1
// prints: Error: There is no page
// prints: a batch of 1
// prints: Error: There is no page
console.log(table.join(" ")); // prints: / /prices /about
await visits.close();
await redis.close();
