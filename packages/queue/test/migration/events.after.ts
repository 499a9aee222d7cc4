import { createQueue } from "@kit/queue";
import { createQueueEvents } from "@kit/queue/events";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<{ email: (data: { to: string }) => void }>(redis, "mail", { maxAttempts: 1 });
const events = createQueueEvents(redis, "mail");
await events.ready();

queue.work({
  email: ({ data }) => {
    if (data.to === "ann") throw new Error("mailbox full");
  },
});
await queue.add("email", { to: "ann" });
await queue.add("email", { to: "bob" });

for await (const event of events) {
  if (event.type === "failed") console.log(`failed: ${event.error?.message}`); // prints: failed: mailbox full
  if (event.type !== "completed") continue;
  console.log("completed"); // prints: completed
  break;
}

await queue.close();
redis.disconnect();
