import { connect } from "@kit/core";
import { createSemaphore } from "@kit/semaphore";

await using redis = await connect();
// Eight gigabytes; each model takes what it needs.
await using memory = createSemaphore(redis, "gpu-memory", { permits: 8 });
const inQueue = () => new Promise((resolve) => memory.once("waiting", resolve));

const model = await memory.acquire({ weight: 5 });
const nightly = memory.using(() => console.log("nightly"), { weight: 6, priority: 10 });
await inQueue();
const customer = memory.using(() => console.log("customer"), { weight: 6, priority: -10 });
await inQueue();

// Three are free, but the waiters come first.
const { free, waiters } = await memory.inspect();
console.log(free, waiters, await memory.tryAcquire({ weight: 1 })); // prints: 3 2 null

await model.release();
// prints: customer
// prints: nightly
await Promise.all([nightly, customer]);
