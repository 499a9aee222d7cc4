import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import { createSchedules, runOf } from "@kit/queue/schedules";

type Jobs = { report: (data: { of: string }) => void };
const redis = await connect();
const queue = createQueue<Jobs>(redis, "reports", { maxAttempts: 3 });
const worker = queue.work({
  report: ({ id, data }) => console.log(`report of ${data.of} by ${runOf(id)?.schedule ?? "hand"}`),
});

const schedules = createSchedules<Jobs>(redis, "reports", { maxAttempts: 3 });
const nightly = { cron: "30 2 * * *", timezone: "Europe/Berlin", name: "report", data: { of: "sales" } } as const;
console.log((await schedules.upsert("nightly", nightly)).outcome); // prints: added
console.log((await schedules.upsert("nightly", nightly)).outcome); // prints: kept
console.log((await schedules.next("nightly", 3)).length); // prints: 3

const completed = new Promise((resolve) => worker.once("completed", resolve));
await schedules.upsert("often", { everyMs: 50, count: 1, name: "report", data: { of: "stock" } });
schedules.run(); // prints: report of stock by often
await completed;
await schedules.remove("often"); // otherwise it stays, ended, and the next start of this program does not begin it again

await schedules.close();
await queue.close();
await redis.close();
