import { createStats } from "@kit/stats";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const stats = createStats(redis);

const latency = stats.distribution("request_seconds", { help: "Time to answer", timeUnit: "s", bounds: [0.5, 1] });
for (const seconds of [0.25, 0.5, 2]) latency.observe(seconds);
await stats.flush();

const { text } = await stats.expose({ scope: "local" });
for (const line of text.trim().split("\n")) console.log(line);
// prints: # HELP request_seconds Time to answer
// prints: # TYPE request_seconds histogram
// prints: request_seconds_bucket{le="0.5"} 2
// prints: request_seconds_bucket{le="1"} 2
// prints: request_seconds_bucket{le="+Inf"} 3
// prints: request_seconds_sum 2.75
// prints: request_seconds_count 3

await stats.close();
redis.disconnect();
