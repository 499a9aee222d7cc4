import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";

const redis = await connect();
const queue = createQueue(redis, "mail", { maxAttempts: 5 });

const worker = queue.work({ email: ({ data }) => console.log(`to ${data.to}`) }); // prints: to ann@example.org
const completed = new Promise((resolve) => worker.once("completed", resolve));
await queue.add("email", { to: "ann@example.org" });

await completed;
await queue.close();
await redis.close();
