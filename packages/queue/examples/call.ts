import { connect } from "@kit/core";
import { createQueue, JobFailedError } from "@kit/queue";

type Jobs = { price: (data: { item: string }) => number };
const redis = await connect();
const queue = createQueue<Jobs>(redis, "prices", { maxAttempts: 2, backoff: { firstMs: 20, jitter: 0 } });
const prices = new Map([["lamp", 12]]);

queue.work({
  price: ({ data }) => {
    const euros = prices.get(data.item);
    if (euros === undefined) throw new Error("There is no such item");
    return euros;
  },
});

console.log(await queue.call("price", { item: "lamp" }, { waitMs: 10_000 })); // prints: 12
try {
  await queue.call("price", { item: "chair" });
} catch (error) {
  if (!(error instanceof JobFailedError)) throw error;
  console.log(error.attempts, error.error?.message); // prints: 2 There is no such item
}
await queue.close();
await redis.close();
