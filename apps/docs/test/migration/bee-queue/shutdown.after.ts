import { createQueue } from "@kit/queue";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<{ encode: (data: { file: string }) => void }>(redis, "videos");
let finish = (): void => undefined;
let begin = (): void => undefined;
const active = new Promise<void>((resolve) => (begin = resolve));
const worker = queue.work({
  encode: () =>
    new Promise<void>((resolve) => {
      finish = resolve;
      begin();
    }),
});
await queue.add("encode", { file: "a.mov" });
await active;

// On SIGTERM. After 20 s the signals of handlers abort, and their jobs go to other workers, without an attempt.
const closed = worker.close({ timeoutMs: 20_000 });
finish();
await closed;
console.log("the job has ended"); // prints: the job has ended

await queue.close();
redis.disconnect();
