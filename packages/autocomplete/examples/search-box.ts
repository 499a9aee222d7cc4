import { connect } from "@kit/core";
import { createPrefixIndex } from "@kit/autocomplete";

await using redis = await connect();
await using names = createPrefixIndex(redis, "names", { order: "weight" });
await names.putMany(["Ann", "Anna", "Anne", "Bob"].map((text) => ({ id: text, text })));

// One session for each search box: a WebSocket, or a page.
const box = names.session({ limit: 5 });
const typed = ["a", "an", "ann", "anna"].map(async (query) => {
  const answer = await box.type(query);
  // Null: a later keystroke came before the answer.
  if (answer) console.log(answer.query, answer.items.map(({ text }) => text).join());
});
await Promise.all(typed); // prints: anna Anna

const back = await box.type("ann");
console.log(back?.items.length, back?.isLocal); // prints: 3 true
box.close();
