import { connect } from "@kit/core";
import { createLimiter } from "@kit/limiter";
import { createQueue, SnoozeError } from "@kit/queue";

const redis = await connect();
const queue = createQueue<{ email: (data: { customer: string }) => void }>(redis, "mail");
// At most 3 emails of one customer in any half second.
const rate = createLimiter(redis, "mail", {
  limits: { emails: { count: 3, perMs: 500, algorithm: "sliding-window" } },
});

let sent = 0;
const worker = queue.work(
  {
    email: async ({ data }) => {
      const { allowed, retryAfterMs } = await rate.consume(data.customer);
      if (!allowed) throw new SnoozeError(retryAfterMs);
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
await rate.close();
await redis.close();
