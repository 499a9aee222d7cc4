import { connect } from "@kit/core";
import { createPrefixIndex } from "@kit/autocomplete";

await using redis = await connect();
await using products = createPrefixIndex(redis, "products");
await products.put({ id: "1", text: "Old lamp" });

// Read from the source of truth, as slowly as it likes. Readers see the old index until the last one is in.
async function* catalogue() {
  yield { id: "1", text: "Brass lamp" };
  yield { id: "2", text: "" };
  yield { id: "3", text: "Lamp oil" };
}
const refused: string[] = [];
const { items } = await products.rebuild(catalogue(), { onInvalid: (_error, { id }) => refused.push(id) });
console.log(items, refused.join()); // prints: 2 2

const found = await products.suggest("lamp");
console.log(found.items.map(({ text }) => text).join()); // prints: Lamp oil,Brass lamp
