import Queue from "bee-queue";

const queue = new Queue<{ to: string }>("mail", {
  redis: { url: process.env["REDIS_URL"] },
  activateDelayedJobs: true,
  removeOnSuccess: true,
});

queue.process(10, ({ data }) => {
  console.log(`to ${data.to}`); // prints: to ann@example.org
  return Promise.resolve();
});
// Without it the jobs of a worker that was killed never run again.
void queue.checkStalledJobs(5_000);

const succeeded = new Promise((resolve) => queue.once("succeeded", resolve));
await queue.createJob({ to: "ann@example.org" }).retries(4).backoff("exponential", 1_000).save();
await succeeded;

await queue.close();
