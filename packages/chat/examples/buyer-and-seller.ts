import { connect } from "@kit/core";
import { createChat } from "@kit/chat";

const redis = await connect();
const chat = createChat(redis);

// One chat for the order. The first call makes it; for the second nothing changes. It stays in Redis: a second run numbers on.
await chat.create("order:17", { members: ["buyer", "seller"], retain: { count: 1_000 } });
await chat.create("order:17", { members: ["buyer", "seller"] });

// The client id makes a second click, or a lost reply, harmless.
await chat.send("order:17", { from: "buyer", body: "Is the lamp still there?", clientId: "click-1" });
const again = await chat.send("order:17", { from: "buyer", body: "Is the lamp still there?", clientId: "click-1" });
console.log(again.seq, again.duplicate); // prints: 1 true

// The seller comes back after a week, and sees the badge before anything is read.
console.log((await chat.unread("seller")).get("order:17")); // prints: 1
const { chats } = await chat.fetch("seller");
for (const { messages } of chats)
  for (const message of messages) {
    console.log(message.from, message.body); // prints: buyer Is the lamp still there?
    await chat.ack("seller", message);
  }
console.log((await chat.unread("seller")).size); // prints: 0

// The buyer waits for the answer, without polling.
const waiting = chat.wait("buyer", { waitMs: 10_000 });
await chat.send("order:17", { from: "seller", body: "Yes, it is." });
console.log(await waiting); // prints: true

const { messages } = await chat.history("order:17", { limit: 10 });
for (const { seq, body } of messages) console.log(seq, body);
// prints: 1 Is the lamp still there?
// prints: 2 Yes, it is.

await chat.close();
await redis.close();
