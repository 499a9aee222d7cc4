import { connect } from "@kit/core";
import { createStats } from "@kit/stats";

await using redis = await connect();
await using stats = createStats(redis);

await stats.counter("orders_total", { help: "Orders that were paid" }).add(3);

const { contentType, text } = await stats.expose(); // for the response to GET /metrics
console.log(contentType); // prints: text/plain; version=0.0.4; charset=utf-8
console.log(text.trim());
// prints: # HELP orders_total Orders that were paid
// prints: # TYPE orders_total counter
// prints: orders_total 3
