import { createStats } from "@kit/stats";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const stats = createStats(redis);

const latency = stats.distribution("checkout_ms", { help: "Time of a checkout" });
for (let ms = 1; ms <= 1_000; ms++) latency.observe(ms);
await stats.flush();

// Of all processes, in the last hour.
const hour = await latency.summary({ lastMs: 3_600_000 });
console.log(Math.abs(hour.quantile(0.99) / 990 - 1) < 0.02); // prints: true

await stats.close();
redis.disconnect();
