import { connect } from "@kit/core";
import { createChat } from "@kit/chat";

const redis = await connect();
const chat = createChat<{ task: string; ms: number }>(redis);
await chat.create("tasks", { members: ["worker"], senders: "anyone", retain: { readByAll: true, count: 10_000 } });
for (const [task, ms] of [["slow", 50] as const, ["quick", 1] as const, ["last", 1] as const])
  await chat.send("tasks", { from: "shop", body: { task, ms } });

// Up to eight at once, done in any order. The position moves only behind what is done without a hole.
const finished: string[] = [];
const end = new AbortController();
const listening = chat.listen("worker", { signal: end.signal }).each(
  async ({ body }) => {
    await new Promise((resolve) => setTimeout(resolve, body.ms));
    if (finished.push(body.task) === 3) end.abort();
  },
  { concurrency: 8 },
);
await listening.catch((error: unknown) => {
  if (!end.signal.aborted) throw error;
});
console.log(finished[2]); // prints: slow

// Every member has read all of them, so nothing is kept.
const { head, messages } = await chat.inspect("tasks");
console.log(head, messages); // prints: 3 0

await chat.close();
await redis.close();
