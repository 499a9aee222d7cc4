import { createStats } from "@kit/stats";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const stats = createStats(redis);

const orders = stats.counter("orders_total", { help: "Orders that were paid", labelNames: ["shop"] });
orders.inc({ shop: "Köln" });
orders.inc({ shop: "Köln" }, 2);
// Not needed in a program: the buffer is sent four times a second.
await stats.flush();

// For the response to GET /metrics: the share of this process, as before.
const { text } = await stats.expose({ scope: "local" });
for (const line of text.trim().split("\n")) console.log(line);
// prints: # HELP orders_total Orders that were paid
// prints: # TYPE orders_total counter
// prints: orders_total{shop="Köln"} 3

await stats.close();
redis.disconnect();
