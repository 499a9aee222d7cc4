import { once } from "node:events";
import { createSemaphore } from "@kit/semaphore";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const semaphore = createSemaphore(redis, "import", { permits: 1, leaseMs: 2_000 });
semaphore.on("lost", () => console.log("lost")); // prints: lost

const permit = await semaphore.acquire();
const { signal } = permit;

// Somebody flushes the server.
await redis.flushall();
await once(signal, "abort");
console.log(permit.isHeld); // prints: false

await semaphore.close();
redis.disconnect();
