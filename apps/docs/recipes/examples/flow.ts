import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";

type Jobs = {
  part: (data: { film: string; part: number; of: number }) => void;
  merge: (data: { film: string; of: number }) => void;
};
const redis = await connect();
const queue = createQueue<Jobs>(redis, "films", { maxAttempts: 5 });

const partsOf = (film: string): string => `film:{${film}}:parts`;

const worker = queue.work({
  part: async ({ data: { film, part, of } }) => {
    // … the work on this part, which may run twice …
    await redis.multi().sadd(partsOf(film), String(part)).expire(partsOf(film), 86_400).exec();
    // The last part adds the parent. The id prevents a second add while the parent exists.
    if ((await redis.scard(partsOf(film))) === of) await queue.add("merge", { film, of }, { id: `merge-${film}` });
  },
  merge: async ({ data: { film, of } }) => {
    console.log(`${film}: ${String(of)} parts`); // prints: metropolis: 3 parts
    await redis.del(partsOf(film)); // a part that runs again now starts a set that never fills
  },
});
const merged = new Promise<void>((resolve) => {
  worker.on("completed", ({ job }) => {
    if (job.name === "merge") resolve();
  });
});

for (let part = 0; part < 3; part++) await queue.add("part", { film: "metropolis", part, of: 3 });
await merged;

await queue.close();
await redis.close();
