import { connect } from "@kit/core";
import { createSemaphore } from "@kit/semaphore";

const redis = await connect(process.env["REDIS_URL"]);
const renderers = createSemaphore(redis, "renderers", { permits: 5 });

const pages = await renderers.using(async ({ signal }) => {
  // At most five are in here at once, on all machines together. The signal aborts if the permit is lost.
  return await render("report", signal);
});
console.log(pages); // prints: 12 pages

await renderers.close();
await redis.close();

async function render(_document: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  return "12 pages";
}
