import Queue from "bee-queue";

const queue = new Queue<{ name: string }>("mail", {
  redis: { url: process.env["REDIS_URL"] },
  activateDelayedJobs: true,
  delayedDebounce: 10,
});

await queue
  .createJob({ name: "Ann" })
  .setId("welcome 7")
  .delayUntil(Date.now() + 100)
  .save();
const again = await queue.createJob({ name: "Ann" }).setId("welcome 7").save();
console.log(again.id === null ? "is there" : "added"); // prints: is there

const succeeded = new Promise((resolve) => queue.once("succeeded", resolve));
queue.process(({ data }) => {
  console.log(`Welcome, ${data.name}`); // prints: Welcome, Ann
  return Promise.resolve();
});
await succeeded;

await queue.close();
