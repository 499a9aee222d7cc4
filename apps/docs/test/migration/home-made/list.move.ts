import { createQueue } from "@kit/queue";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<{ email: (data: { to: string }) => void }>(redis, "mail");

// Of the time before: two jobs wait, and a third was left by a worker that ended.
for (const to of ["ann", "bob", "cy"]) await redis.lpush("mail", JSON.stringify({ to }));
await redis.brpoplpush("mail", "mail:processing", 5);

/** Moves a list, once nothing adds to it and its workers have ended. It may be repeated. */
async function move(list: string): Promise<void> {
  for (let left = await redis.llen(list); left > 0; left--) {
    const text = await redis.lindex(list, -1);
    if (text === null) throw new Error(`Another process takes from ${list}`);
    // The id is the place. If this process ends between the two calls, a repeat adds no second job.
    await queue.add("email", JSON.parse(text) as { to: string }, { id: `${list} ${left}` });
    await redis.rpop(list);
  }
}
await move("mail:processing");
await move("mail");

let done = 0;
const worker = queue.work({ email: ({ data }) => console.log(`to ${data.to}`) }, { concurrency: 1 });
// prints: to ann
// prints: to bob
// prints: to cy
await new Promise<void>((resolve) => {
  worker.on("completed", () => ++done === 3 && resolve());
});

await queue.close();
redis.disconnect();
