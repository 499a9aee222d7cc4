import { connect } from "@kit/core";
import { createStats } from "@kit/stats";

await using redis = await connect();
await using stats = createStats(redis);

const latency = stats.distribution("request_ms", { labelNames: ["route", "outcome"], slowest: 10 });

// Measures on the monotonic clock. The label `outcome` becomes "ok", or "error" when the work throws.
await latency.timed({ route: "/cart" }, () => "shown", { subject: "/cart/17" });

// Or hand over what was measured elsewhere.
for (let ms = 1; ms <= 1_000; ms++) latency.observe({ route: "/search", outcome: "ok" }, ms);
await stats.flush();

const hour = { lastMs: 3_600_000 };
const search = await latency.summary({ route: "/search", outcome: "ok" }, hour);
console.log(search.count, search.mean, search.stddev.toFixed(2)); // prints: 1000 500.5 288.67
console.log(Math.abs(search.quantile(0.99) / 990 - 1) < 0.0109); // prints: true

const [slowest] = await latency.slowest({ route: "/cart", outcome: "ok" }, hour);
console.log(slowest?.subject); // prints: /cart/17
