import { connect } from "@kit/core";
import { createStats } from "@kit/stats";

await using redis = await connect(process.env["REDIS_URL"]);
await using stats = createStats(redis);

const visits = stats.counter("visits_total", { labelNames: ["country"] });

/** Counts the lines of a log up to a position. A process that starts again may repeat it: it counts once. */
async function countUpTo(position: number): Promise<void> {
  const deltas = [
    { name: "visits_total", labels: { country: "DE" }, amount: 17 },
    { name: "visits_total", labels: { country: "FR" }, amount: 4 },
  ];
  await stats.apply(deltas, { writer: "access.log", seq: position });
}

await countUpTo(4_096);
await countUpTo(4_096); // after a crash, say
console.log(await visits.total({ country: "DE" })); // prints: 17
