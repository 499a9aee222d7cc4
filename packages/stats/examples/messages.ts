import { connect } from "@kit/core";
import { createStats } from "@kit/stats";

await using redis = await connect();
await using stats = createStats(redis);

const checkout = stats.messages("checkout");
for (const card of [4242, 1881, 7777]) checkout.log("warn", `Card ${card} refused`, { fields: { card } });
checkout.log("error", "No answer from the bank");
await stats.flush();

// The last entries …
const { entries } = await checkout.recent({ level: "warn", limit: 1 });
console.log(entries[0]?.text, entries[0]?.fields["card"]); // prints: Card 7777 refused 7777

// … and what was logged most: texts that differ in numbers and ids are counted together.
for (const { count, level, sample } of await checkout.frequent({ lastMs: 3_600_000 }))
  console.log(count, level, sample);
// prints: 3 warn Card 4242 refused
// prints: 1 error No answer from the bank
