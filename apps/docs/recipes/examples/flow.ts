import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import { addFlow, readChildren } from "@kit/queue/flows";

type Jobs = {
  part: (data: { film: string; part: number }) => { seconds: number };
  merge: (data: { film: string }) => void;
};
const redis = await connect();
const queue = createQueue<Jobs>(redis, "films", { maxAttempts: 5 });

const worker = queue.work({
  part: ({ data: { part } }) => ({ seconds: 60 * part }), // … the work on this part, which may run twice …
  merge: async (job) => {
    const { children } = await readChildren(job);
    console.log(`${job.data.film}: ${String(children.length)} parts`); // prints: metropolis: 3 parts
  },
});
const merged = new Promise<void>((resolve) => {
  worker.on("completed", ({ job }) => {
    if (job.name === "merge") resolve();
  });
});

const film = "metropolis";
const parts = [1, 2, 3].map((part) => ({ name: "part" as const, data: { film, part } }));
await addFlow(queue, { name: "merge", data: { film }, children: parts });
await merged;

await queue.close();
await redis.close();
