import { createQueue } from "@kit/queue";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<{ email: (data: { to: string }) => void }>(redis, "mail");

await queue.add("email", { to: "ann@example.org" });

const worker = queue.work({ email: ({ data }) => console.log(`to ${data.to}`) }); // prints: to ann@example.org
await new Promise((resolve) => worker.once("completed", resolve));

await queue.close();
redis.disconnect();
