import { createQueue } from "@kit/queue";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const queue = createQueue<{ welcome: (data: { name: string }) => void }>(redis, "mail");

await queue.add("welcome", { name: "Ann" }, { id: "welcome 7", delayMs: 100 });
const { isAdded } = await queue.addOnce("welcome", { name: "Ann" }, { id: "welcome 7" });
console.log(isAdded ? "added" : "is there"); // prints: is there

const worker = queue.work({ welcome: ({ data }) => console.log(`Welcome, ${data.name}`) }); // prints: Welcome, Ann
await new Promise((resolve) => worker.once("completed", resolve));

await queue.close();
redis.disconnect();
