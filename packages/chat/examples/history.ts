import { connect } from "@kit/core";
import { createChat } from "@kit/chat";

const redis = await connect();
const chat = createChat<string>(redis);
await chat.create("order:19", { members: ["buyer", "seller"] });
for (const body of ["one", "two", "three", "four"]) await chat.send("order:19", { from: "buyer", body });

// Support joins later, with the last two messages, and sees a badge.
await chat.join("order:19", "support", { history: 2 });
const counts = await chat.unread("support");
console.log(counts.get("order:19")); // prints: 2

// It scrolls back from the last message. `member` hides what was before it joined.
const { messages, hasOlder } = await chat.history("order:19", { before: 4, limit: 50, member: "support" });
console.log(messages.map(({ body }) => body).join(), hasOlder); // prints: three false

await chat.close();
await redis.close();
