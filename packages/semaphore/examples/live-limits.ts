import { connect } from "@kit/core";
import { createSemaphore } from "@kit/semaphore";

await using redis = await connect();
await using mine = createSemaphore(redis, "mailers", { permits: 2 });
await mine.using(() => undefined);

// Another release of the program says 4. The stored limit counts, and the object that differs emits `mismatch`, once.
await using theirs = createSemaphore(redis, "mailers", { permits: 4 });
theirs.on("mismatch", ({ configured, stored }) =>
  console.log(`${configured.permits} here, ${stored.permits} in force`),
);
const permits = [await theirs.acquire(), await theirs.acquire()]; // prints: 4 here, 2 in force
const waiting = mine.acquire();

// For all objects, from now on; the waiter gets a permit.
await theirs.setPermits(3);
permits.push(await waiting);

// No permit is taken away, and none is granted until enough have been released.
await theirs.setPermits(1);
const { used, free } = await mine.inspect();
console.log(used, free, await mine.tryAcquire()); // prints: 3 0 null

// A pause: nothing is granted until the limit changes. It outlives this program: end it, or all others wait.
await theirs.setPermits(0);
for (const permit of permits) await permit.release();
console.log(await mine.tryAcquire()); // prints: null
await theirs.setPermits(2);
console.log(await mine.using(() => "on we go")); // prints: on we go
