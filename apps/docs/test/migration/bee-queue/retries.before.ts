import Queue from "bee-queue";

const queue = new Queue<{ card: string }>("payments", {
  redis: { url: process.env["REDIS_URL"] },
  // Fixed and exponential waits need it, in one process at least.
  activateDelayedJobs: true,
  delayedDebounce: 10,
});
let attempt = 0;
let isBankOpen = false;

queue.process(() => {
  if (!isBankOpen) throw new Error(`The bank is closed (attempt ${++attempt})`);
  return Promise.resolve();
});
const failed = new Promise<void>((resolve) => {
  queue.on("failed", (job) => job.status === "failed" && resolve());
});
await queue.createJob({ card: "4711" }).retries(2).backoff("fixed", 20).save();
await failed;

const [letter] = await queue.getJobs("failed", { size: 10 });
const { stacktraces } = letter!.options as { stacktraces: string[] };
console.log(stacktraces[0]?.split("\n")[0]); // prints: Error: The bank is closed (attempt 3)
isBankOpen = true;
const succeeded = new Promise((resolve) => queue.once("succeeded", resolve));
await queue.createJob(letter!.data).save();
await letter!.remove();
await succeeded;

await queue.close();
