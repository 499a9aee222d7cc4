import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import { sendMail, SmtpSink } from "./support/smtp.js";

type Jobs = { sold: (sale: { seller: string; item: string; euros: number }) => void };
const redis = await connect();
const server = await SmtpSink.start(); // your mail server
const mails = createQueue<Jobs>(redis, "mails", {
  maxAttempts: 3,
  backoff: { firstMs: 20, jitter: 0 },
  timeoutMs: 30_000,
});

const worker = mails.work(
  {
    // If a worker dies after sending, the mail is sent again. The id lets the mail server recognize the repeat.
    sold: ({ id, data: { seller, item, euros }, signal }) =>
      sendMail(server.port, { id, to: seller, text: `Sold: ${item} for ${String(euros)} euros` }, signal),
  },
  { concurrency: 10 },
);
worker.on("completed", () => console.log("sent"));
worker.on("failed", ({ job, error }) => console.log(`attempt ${String(job.attempt)}: ${String(error)}`));

const done = new Promise((resolve) => worker.once("completed", resolve));
server.refuseNext = 1;
await mails.add("sold", { seller: "ann@example.org", item: "a lamp", euros: 12 });
await done;
// prints: attempt 1: Error: 451 try again later
// prints: sent
console.log(server.mails.length); // prints: 1
await mails.close();
await server.close();
await redis.close();
