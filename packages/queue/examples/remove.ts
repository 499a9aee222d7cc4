import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import { drainQueue } from "@kit/queue/manage";
import { createSchedules } from "@kit/queue/schedules";

const redis = await connect();
const queue = createQueue(redis, "old");
const schedules = createSchedules(redis, "old");
await queue.add("report", { of: "sales" });
await queue.add("report", { of: "stock" }, { delayMs: 60_000 });
await schedules.upsert("nightly", { cron: "0 3 * * *", name: "report" });

console.log(await drainQueue(redis, { queue: "old" }, { delayed: true })); // prints: 2
for (let letters; (letters = await queue.deadLetters()).length > 0;) {
  await queue.dropDeadLetters(letters.map(({ id }) => id));
}
for (let page; (page = await schedules.list()).length > 0;) {
  for (const { id } of page) await schedules.remove(id);
}

await schedules.close();
await queue.close();
await redis.close();
