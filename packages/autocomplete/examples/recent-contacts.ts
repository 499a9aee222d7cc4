import { connect } from "@kit/core";
import { createContactBook } from "@kit/autocomplete";

await using redis = await connect();
await using contacts = createContactBook<{ avatar: string }>(redis, "user:1", { ranking: "frecent" });

// One event for each message that is sent.
await contacts.record("user:7", { text: "Jean-Luc Picard", payload: { avatar: "7.png" } });
await contacts.record("user:8", { text: "Zoë Piper" });
await contacts.record("user:7");

// Keystrokes are answered in this process: the book was fetched once.
const { items } = await contacts.suggest("pi");
for (const { text, ranges } of items) console.log(text, JSON.stringify(ranges));
// prints: Jean-Luc Picard [[9,11]]
// prints: Zoë Piper [[4,6]]

await contacts.remove("user:7");
const { items: left } = await contacts.list();
console.log(left.map(({ text }) => text).join()); // prints: Zoë Piper
