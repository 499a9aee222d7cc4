import { connect } from "@kit/core";
import { createQueue, SnoozeError } from "@kit/queue";

const redis = await connect();
const queue = createQueue<{ email: (data: { customer: string }) => void }>(redis, "mail");

/** Counts a use in the customer's current window. Returns 0, or the milliseconds until the next window. */
const useOf = async (customer: string, { limit, perMs }: { limit: number; perMs: number }): Promise<number> => {
  const window = Math.floor(Date.now() / perMs);
  const key = `rate:{${customer}}:${String(window)}`;
  const replies = await redis
    .multi()
    .incr(key)
    .pexpire(key, 2 * perMs)
    .exec();
  const used = Number(replies?.[0]?.[1]);
  return used <= limit ? 0 : (window + 1) * perMs - Date.now();
};

let sent = 0;
const worker = queue.work(
  {
    email: async ({ data }) => {
      const waitMs = await useOf(data.customer, { limit: 3, perMs: 500 });
      if (waitMs > 0) throw new SnoozeError(waitMs);
      sent++;
    },
  },
  { concurrency: 10, maxSnoozes: 10_000 },
);
const done = new Promise<void>((resolve) => {
  worker.on("completed", () => {
    if (sent === 6) resolve();
  });
});

for (let job = 0; job < 6; job++) await queue.add("email", { customer: "ann" });
await done;
console.log(`sent ${String(sent)}`); // prints: sent 6

await queue.close();
await redis.close();
