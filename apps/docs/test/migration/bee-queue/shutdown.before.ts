import Queue from "bee-queue";

const queue = new Queue<{ file: string }>("videos", { redis: { url: process.env["REDIS_URL"] } });
let finish = (): void => undefined;
let begin = (): void => undefined;
const active = new Promise<void>((resolve) => (begin = resolve));
queue.process(
  () =>
    new Promise<void>((resolve) => {
      finish = resolve;
      begin();
    }),
);
await queue.createJob({ file: "a.mov" }).save();
await active;

// On SIGTERM. After 20 s it rejects, and the handlers go on.
const closed = queue.close(20_000);
finish();
await closed;
console.log("the job has ended"); // prints: the job has ended
