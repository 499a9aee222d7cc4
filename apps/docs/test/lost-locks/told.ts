import { connect } from "@kit/core";
import { createLock } from "@kit/lock";

const redis = await connect();
const lock = createLock(redis, { leaseMs: 3_000 });

// The longest time for which this process could not run anything, since the last loss.
let seenAt = performance.now();
let stallMs = 0;
const look = () => {
  const now = performance.now();
  stallMs = Math.max(stallMs, now - seenAt);
  seenAt = now;
};
setInterval(look, 50).unref();

lock.on("lost", ({ name, reason }) => {
  look();
  console.log(`${name}: ${reason}, ${stallMs > 2_000 ? "after a stall of this process" : "without a stall"}`);
  stallMs = 0;
});
const lost = () => new Promise((resolve) => lock.once("lost", resolve));

await lock.acquire("deleted");
await redis.del("kit:lock:{deleted}:lease");
await lost(); // prints: deleted: expired, without a stall

await lock.acquire("taken");
await redis.set("kit:lock:{taken}:lease", "another|web-2", "PX", 3_000);
await lost(); // prints: taken: taken, without a stall

await lock.acquire("stalled", { leaseMs: 500 });
const until = performance.now() + 2_500;
while (performance.now() < until);
await lost(); // prints: stalled: deadline, after a stall of this process

await lock.close();
await redis.close();
