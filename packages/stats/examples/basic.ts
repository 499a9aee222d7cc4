import { connect } from "@kit/core";
import { createStats } from "@kit/stats";

const redis = await connect();
const stats = createStats(redis);

// Counted here, sent four times a second, summed up over all processes. Redis keeps the sums: a second run counts on.
const views = stats.counter("item_views_total", { labelNames: ["category"] });
views.inc({ category: "hats" });
views.inc({ category: "hats" }, 2);
await stats.flush();
console.log(await views.total({ category: "hats" })); // prints: 3

// The last ten minutes, by minute: gaps are zeros, and the minute that still runs says so.
const minutes = await views.read({ category: "hats" }, { lastMs: 600_000, stepMs: 60_000 });
console.log(
  minutes.reduce((sum, { value }) => sum + value, 0),
  minutes.at(-1)?.isPartial,
); // prints: 3 true

await stats.close();
await redis.close();
