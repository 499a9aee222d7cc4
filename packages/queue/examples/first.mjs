import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";

const redis = await connect();
const queue = createQueue(redis, "mail");

queue.work({ email: ({ data }) => `to ${data.to}` });
console.log(await queue.call("email", { to: "ann@example.org" }, { waitMs: 10_000 })); // prints: to ann@example.org

await queue.close();
await redis.close();
