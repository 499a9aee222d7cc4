import { AggregatorRegistry, Counter, Registry } from "prom-client";

// Two workers of Node's cluster. Each has its own numbers; the primary process adds up those of its machine.
const workers = [1, 2].map((visits) => {
  const registry = new Registry();
  new Counter({ name: "visits_total", help: "Visits", registers: [registry] }).inc(visits);
  return registry;
});
const all = AggregatorRegistry.aggregate(await Promise.all(workers.map((worker) => worker.getMetricsAsJSON())));

const text = await all.metrics();
console.log(text.trim().split("\n").at(-1)); // prints: visits_total 3
