import { once } from "node:events";
import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import { handlers } from "./jobs.mjs";

const redis = await connect({ url: process.env["REDIS_URL"], deadlineMs: 20_000 }); // it may start in a failover
const queue = createQueue(redis, "shop", { maxAttempts: 5 });
const worker = queue.work(handlers, { concurrency: 10 });
console.log("works: shop");

await once(process, "SIGTERM");
await worker.close({ timeoutMs: 15_000 });
await queue.close();
await redis.close();
