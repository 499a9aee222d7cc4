import { connect } from "@kit/core";
import { createPrefixIndex } from "@kit/autocomplete";

const redis = await connect();
const cities = createPrefixIndex(redis, "cities", { order: "weight" });

await cities.putMany([
  { id: "2950159", text: "Berlin", weight: 3_426_354, payload: { country: "DE" } },
  { id: "3169070", text: "Bern", weight: 121_631, payload: { country: "CH" } },
  { id: "5128581", text: "New Berlin", weight: 39_584, payload: { country: "US" } },
  { id: "3448439", text: "São Paulo", weight: 10_021_295, payload: { country: "BR" } },
]);

const { items } = await cities.suggest("be");
for (const { text, payload } of items) console.log(text, JSON.stringify(payload));
// prints: Berlin {"country":"DE"}
// prints: Bern {"country":"CH"}
// prints: New Berlin {"country":"US"}

const [saoPaulo] = (await cities.suggest("SAO")).items;
console.log(saoPaulo?.text); // prints: São Paulo

await cities.close();
await redis.close();
