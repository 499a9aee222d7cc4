import { connect } from "@kit/core";
import { createSemaphore } from "@kit/semaphore";

const redis = await connect();
const renderers = createSemaphore(redis, "renderers", { permits: 5 });

const pages = await renderers.using(({ signal }) => {
  // At most five are in here at once, on all machines together. Pass the signal on: it aborts if the permit is lost.
  signal.throwIfAborted();
  return "12 pages";
});
console.log(pages); // prints: 12 pages

await renderers.close();
await redis.close();
