import { connect } from "@kit/core";
import { createChat } from "@kit/chat";

const redis = await connect();
const chat = createChat<string>(redis);
await chat.create("order:18", { members: ["buyer", "seller"], receipts: true });
const { seq } = await chat.send("order:18", { from: "buyer", body: "Is it red?" });

// The seller's phone shows a badge, and waits.
const phone = await chat.fetch("seller", { positions: true });
console.log((await chat.unread("seller")).get("order:18")); // prints: 1
const waiting = chat.wait("seller", { token: phone.token, positions: true, waitMs: 10_000 });

// The buyer listens.
const buyer = await chat.fetch("buyer", { positions: true });
const end = new AbortController();
const receipt = new Promise<string>((resolve) => {
  chat.on("position", ({ to, member, position }) => {
    if (to === "buyer" && member === "seller") resolve(`${member} has read message ${position}`);
  });
});
const listening = chat
  .listen("buyer", { token: buyer.token, positions: true, signal: end.signal })
  .each(({ body }) => console.log(body))
  .catch(() => undefined);

// The seller reads at the desk. The phone takes its badge away, and the buyer sees the receipt.
await chat.ack("seller", { chat: "order:18", seq });
console.log(await waiting); // prints: true
const { positions } = await chat.fetch("seller", { token: phone.token, positions: true });
console.log(positions.map(({ chat: name, member, position }) => `${name} ${member} ${position}`).join()); // prints: order:18 seller 1
console.log(await receipt); // prints: seller has read message 1

end.abort();
await listening;
await chat.close();
await redis.close();
