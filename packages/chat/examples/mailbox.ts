import { connect } from "@kit/core";
import { createChat } from "@kit/chat";

const redis = await connect();
const chat = createChat<string>(redis);
const invoices = chat.mailbox("invoices", { retain: { count: 1_000 } });

// A sender looks first: how much waits there, and was the recipient here at all?
const { length, lastSeenAt } = await invoices.stats();
console.log(length, lastSeenAt); // prints: 0 undefined
for (const order of ["order 1", "order 2"]) await invoices.send({ from: "shop", body: order });

// Two workers, in two processes as a rule. Each message goes to one of them.
const [first] = await invoices.take({ leaseMs: 200 });
const [second] = await invoices.take();
console.log(first?.body, "|", second?.body); // prints: order 1 | order 2
await second?.ack();

// The first worker crashed. Another one waits, and gets its message as soon as the lease has ended.
const [again] = await invoices.take({ waitMs: 10_000 });
console.log(again?.body, again?.deliveries); // prints: order 1 2
await again?.ack();
console.log((await invoices.stats()).length); // prints: 0

await chat.close();
await redis.close();
