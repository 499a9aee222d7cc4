import { createQueue } from "@kit/queue";
import { adoptBullQueue } from "@kit/queue/adopt";
import { Queue } from "bullmq";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const old = new Queue("mail", { connection: redis });
await old.add("email", { to: "ann@example.org" }, { attempts: 3, backoff: 1_000 });
await old.add("email", { to: "bob@example.org" }, { delay: 60_000 });

const report = await adoptBullQueue(redis, { from: "mail" }, { queue: "mail" }, { run: true });
console.log(report.moved.waiting, report.moved.delayed, report.refused.length); // prints: 1 1 0

const queue = createQueue<{ email: (data: { to: string }) => void }>(redis, "mail");
const worker = queue.work({ email: ({ data }) => console.log(`to ${data.to}`) }); // prints: to ann@example.org
await new Promise((resolve) => worker.once("completed", resolve));

await old.close();
await queue.close();
redis.disconnect();
