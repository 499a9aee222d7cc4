import { Summary } from "prom-client";

const latency = new Summary({ name: "checkout_ms", help: "Time of a checkout", percentiles: [0.99] });
for (let ms = 1; ms <= 1_000; ms++) latency.observe(ms);

// Of this process alone. Quantiles of several processes cannot be added up.
const { values } = await latency.get();
const p99 = values.find(({ labels }) => labels["quantile"] === 0.99)?.value ?? NaN;
console.log(Math.abs(p99 / 990 - 1) < 0.02); // prints: true
