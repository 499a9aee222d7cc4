import { createQueue } from "@kit/queue";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<{ index: (data: { text: string }) => void }>(redis, "search");

// The job with the latest data, once 1 s after the last add; and once more if it is added while that job runs.
const options = { delayMs: 1_000, unique: { key: "user 7", mode: "keepLast" } } as const;
for (const text of ["h", "he", "hey"]) await queue.add("index", { text }, options);

const worker = queue.work({ index: ({ data }) => console.log(data.text) }); // prints: hey
await new Promise((resolve) => worker.once("completed", resolve));

await queue.close();
redis.disconnect();
