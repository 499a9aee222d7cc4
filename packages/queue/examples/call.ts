import { connect } from "@kit/core";
import { createQueue, JobFailedError, UnrecoverableError } from "@kit/queue";

const redis = await connect();
const queue = createQueue<{ price: (data: { item: string }) => number }>(redis, "prices");
queue.work({
  price: ({ data }) => {
    if (data.item !== "lamp") throw new UnrecoverableError("There is no such item");
    return 12;
  },
});

console.log(await queue.call("price", { item: "lamp" }, { waitMs: 10_000 })); // prints: 12
const failed = await queue.call("price", { item: "chair" }).catch((error: unknown) => error);
console.log(failed instanceof JobFailedError && failed.error?.message); // prints: There is no such item

await queue.close();
await redis.close();
