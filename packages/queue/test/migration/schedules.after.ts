import { createQueue } from "@kit/queue";
import { createSchedules } from "@kit/queue/schedules";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<{ report: (data: { of: string }) => void }>(redis, "reports");
const schedules = createSchedules(redis, "reports");
await schedules.upsert("often", { everyMs: 100, count: 2, name: "report", data: { of: "sales" } });
// In one process at least, the workers' or another one.
schedules.run();

let done = 0;
const worker = queue.work({ report: ({ data }) => console.log(data.of) }); // prints: sales
await new Promise<void>((resolve) => {
  worker.on("completed", () => ++done === 2 && resolve()); // prints: sales
});
await schedules.remove("often");

await schedules.close();
await queue.close();
redis.disconnect();
