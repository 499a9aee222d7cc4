import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import { keepHistory } from "@kit/queue/history";
import { inspectJob, listJobs } from "@kit/queue/manage";

type Jobs = { report: (data: { year: number }) => { rows: number } };
const redis = await connect();
const history = keepHistory({ maxCount: 500, maxAgeMs: 86_400_000 });
const reports = createQueue<Jobs>(redis, "reports", { history });
const worker = reports.work({ report: ({ data }) => ({ rows: data.year - 2_000 }) });

const completed = new Promise((resolve) => worker.once("completed", resolve));
const id = await reports.add("report", { year: 2_026 });
await completed;

const address = { queue: "reports" };
const { state, result } = await inspectJob(redis, address, id, { withData: true });
console.log(state, JSON.stringify(result)); // prints: completed {"rows":26}
const { jobs } = await listJobs(redis, address, { state: "completed", name: "report", from: "end", count: 1 });
console.log(jobs[0]?.id === id, jobs[0]?.attempts); // prints: true 0

await reports.close();
await redis.close();
