import { createQueue } from "@kit/queue";
import { setLimits } from "@kit/queue/manage";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<{ update: (customer: string) => void }>(redis, "crm", { maxAttempts: 5 });
// Of all workers together, until it is changed.
await setLimits(redis, { queue: "crm" }, { rate: { count: 20, perMs: 1_000 } });

let done = 0;
const worker = queue.work({ update: ({ data }) => console.log(`updated ${data}`) });
const all = new Promise<void>((resolve) => {
  worker.on("completed", () => ++done === 2 && resolve());
});
for (const customer of ["ann", "bob"]) await queue.add("update", customer);
// prints: updated ann
// prints: updated bob
await all;

await queue.close();
redis.disconnect();
