import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";

type Jobs = { index: (data: { user: number; text: string }) => void };
const redis = await connect();
const queue = createQueue<Jobs>(redis, "search");
const latest = { unique: { key: "user 7", mode: "keepLast" }, delayMs: 50 } as const;

await queue.add("index", { user: 7, text: "h" }, latest);
await queue.add("index", { user: 7, text: "he" }, latest);
const { isAdded, isReplaced } = await queue.addOnce("index", { user: 7, text: "hey" }, latest);
console.log(isAdded, isReplaced); // prints: false true

const worker = queue.work({ index: ({ data }) => console.log(data.text) }); // prints: hey
await new Promise((resolve) => worker.once("completed", resolve));

await queue.close();
await redis.close();
