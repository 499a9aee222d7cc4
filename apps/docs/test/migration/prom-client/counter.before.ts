import { Counter, register } from "prom-client";

const orders = new Counter({ name: "orders_total", help: "Orders that were paid", labelNames: ["shop"] });
orders.inc({ shop: "Köln" });
orders.inc({ shop: "Köln" }, 2);

// For the response to GET /metrics.
const text = await register.getSingleMetricAsString("orders_total");
for (const line of text.trim().split("\n")) console.log(line);
// prints: # HELP orders_total Orders that were paid
// prints: # TYPE orders_total counter
// prints: orders_total{shop="Köln"} 3
