import { connect } from "@kit/core";
import { createStats } from "@kit/stats";

await using redis = await connect(process.env["REDIS_URL"]);
await using stats = createStats(redis);

const latency = stats.distribution("request_ms", { labelNames: ["route", "outcome"], slowest: 10 });

// Measures on the monotonic clock, also what fails: `outcome` becomes "ok" or "error".
await latency.timed({ route: "/cart" }, () => "shown", { subject: "/cart/17" });
await latency.timed({ route: "/cart" }, () => Promise.reject(new Error("sold out"))).catch(() => undefined);

// Labels that are known only at the end. In a `finally` block it hides the error of the work only if a label is wrong.
const http = stats.distribution("http_ms", { labelNames: ["route", "status"] });
const end = http.startTimer({ route: "/cart" });
let status = 500;
try {
  status = await Promise.resolve(200);
} finally {
  end({ status });
}

// Or hand over what was measured elsewhere.
for (let ms = 1; ms <= 1_000; ms++) latency.observe({ route: "/search", outcome: "ok" }, ms);
await stats.flush();

const hour = { lastMs: 3_600_000 };
const search = await latency.summary({ route: "/search", outcome: "ok" }, hour);
console.log(search.count, search.mean, search.stddev.toFixed(2)); // prints: 1000 500.5 288.67
console.log(Math.abs(search.quantile(0.99) / 990 - 1) < 0.0109); // prints: true

const failed = await latency.summary({ route: "/cart", outcome: "error" }, hour);
const [slowest] = await latency.slowest({ route: "/cart", outcome: "ok" }, hour);
console.log(failed.count, slowest?.subject); // prints: 1 /cart/17

// Not buffered: resolves with the new totals.
const { total } = await latency.record({ route: "/search", outcome: "ok" }, 2_000);
console.log(total.count, total.max); // prints: 1001 2000
