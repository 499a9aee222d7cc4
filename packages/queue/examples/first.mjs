import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";

const redis = await connect();
const queue = createQueue(redis, "mail", { maxAttempts: 5 });

const worker = queue.work({ email: ({ data }) => console.log(`to ${data.to}`) }); // prints: to ann@example.org
await queue.add("email", { to: "ann@example.org" });

await new Promise((resolve) => worker.once("completed", resolve));
await queue.close();
await redis.close();
