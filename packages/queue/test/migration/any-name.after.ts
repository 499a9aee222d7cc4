import { createQueue } from "@kit/queue";
import { Redis } from "ioredis";

type Jobs = { email: (data: { to: string }) => void; resize: (data: { url: string }) => void };
const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<Jobs>(redis, "mail");

const worker = queue.work({
  "*": async ({ name, data }) => {
    if (name === "email") console.log(`to ${data.to}`); // prints: to ann@example.org
  },
  resize: ({ data }) => console.log(data.url), // prints: lamp.png
});
const completed = new Promise<void>((resolve) => {
  worker.on("completed", ({ job }) => job.name === "resize" && resolve());
});
await queue.addAll([
  { name: "email", data: { to: "ann@example.org" } },
  { name: "resize", data: { url: "lamp.png" } },
]);
await completed;

await queue.close();
redis.disconnect();
