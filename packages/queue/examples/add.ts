import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";

type Jobs = { email: (data: { to: string }) => void };
const redis = await connect();
const mails = createQueue<Jobs>(redis, "mails", { maxAttempts: 5, backoff: { firstMs: 1_000 } });

await mails.add("email", { to: "ann@example.org" });
await mails.add("email", { to: "bob@example.org" }, { priority: -1 });
await mails.add("email", { to: "cy@example.org" }, { delayMs: 60_000 });
// A job that waits is not added again: a second run of this program prints false.
const { isAdded } = await mails.addOnce("email", { to: "di@example.org" }, { id: "welcome di" });
console.log(isAdded); // prints: true

await mails.close();
await redis.close();
