import Queue from "bee-queue";

const queue = new Queue<{ item: string }>("prices", { redis: { url: process.env["REDIS_URL"] } });
queue.process(() => Promise.resolve(12));

const job = queue.createJob({ item: "lamp" });
// A message that is lost, or a worker that dies, is never told: bound the wait yourself.
const result = new Promise((resolve, reject) => job.once("succeeded", resolve).once("failed", reject));
await job.timeout(5_000).save();
console.log(await result); // prints: 12

await queue.close();
