import { connect } from "@kit/core";
import { createQueue, UnrecoverableError } from "@kit/queue";

type Jobs = { charge: (data: { card: string }) => void };
const redis = await connect();
const queue = createQueue<Jobs>(redis, "payments", { maxAttempts: 3, backoff: { firstMs: 20, jitter: 0 } });
let isBankOpen = false;

const worker = queue.work({
  charge: ({ data, attempt }) => {
    if (data.card === "") throw new UnrecoverableError("There is no card"); // trying again makes no sense
    if (!isBankOpen) throw new Error(`The bank is closed (attempt ${attempt})`);
  },
});

const dead = new Promise((resolve) => worker.once("dead", resolve));
await queue.add("charge", { card: "4711" });
await dead;
const [letter] = await queue.deadLetters();
console.log(letter?.data, letter?.error?.message); // prints: [object Object] The bank is closed (attempt 3)

isBankOpen = true;
const completed = new Promise((resolve) => worker.once("completed", resolve));
console.log(await queue.redrive()); // prints: 1
await completed;
await queue.close();
await redis.close();
