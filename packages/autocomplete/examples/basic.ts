import { connect } from "@kit/core";
import { createPrefixIndex } from "@kit/autocomplete";

await using redis = await connect(process.env["REDIS_URL"]);
await using cities = createPrefixIndex<{ country: string }>(redis, "cities", { order: "weight" });

await cities.putMany([
  { id: "2950159", text: "Berlin", weight: 3_426_354, payload: { country: "DE" } },
  { id: "3169070", text: "Bern", weight: 121_631, payload: { country: "CH" } },
  { id: "5128581", text: "New Berlin", weight: 39_584, payload: { country: "US" } },
  { id: "3448439", text: "São Paulo", weight: 10_021_295, payload: { country: "BR" } },
]);

const { items } = await cities.suggest("be");
for (const { text, payload } of items) console.log(text, payload?.country);
// prints: Berlin DE
// prints: Bern CH
// prints: New Berlin US

const [saoPaulo] = (await cities.suggest("SAO")).items;
console.log(saoPaulo?.text); // prints: São Paulo
