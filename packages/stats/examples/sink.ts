import { connect } from "@kit/core";
import { createStats } from "@kit/stats";

await using redis = await connect();
await using stats = createStats(redis);

const visits = stats.counter("visits_total", { labelNames: ["country"] });

const deltas = [{ name: "visits_total", labels: { country: "DE" }, amount: 17 }];
await stats.apply(deltas, { writer: "access.log", seq: 4_096 });
await stats.apply(deltas, { writer: "access.log", seq: 4_096 }); // after a crash, say
console.log(await visits.total({ country: "DE" })); // prints: 17
