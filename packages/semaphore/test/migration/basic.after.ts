import { createSemaphore } from "@kit/semaphore";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
// Once, where the program starts; not for each call.
const semaphore = createSemaphore(redis, "renderers", { permits: 5 });

await semaphore.using(() => {
  console.log("rendering"); // prints: rendering
});

await semaphore.close();
redis.disconnect();
