import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import { createOrderedWorker } from "@kit/queue/ordered";

const redis = await connect();
const payments = createQueue<{ charge: (data: { euros: number }) => void }>(redis, "payments");
const reports = createQueue<{ render: (data: { month: string }) => void }>(redis, "reports");
await reports.add("render", { month: "May" });
for (const euros of [5, 7, 9]) await payments.add("charge", { euros });

const worker = createOrderedWorker({ concurrency: 1, maxPassedOver: 2 });
const first = worker.serve(payments, { charge: ({ data }) => console.log(`charged ${String(data.euros)}`) });
worker.serve(reports, { render: ({ data }) => console.log(`rendered ${data.month}`) });
// prints: charged 5
// prints: charged 7
// prints: rendered May
// prints: charged 9

let charged = 0;
await new Promise<void>((resolve) => {
  first.on("completed", () => {
    if (++charged === 3) resolve();
  });
});
await worker.close();
await payments.close();
await reports.close();
await redis.close();
