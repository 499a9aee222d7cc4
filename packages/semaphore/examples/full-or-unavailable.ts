import { connect, KitError } from "@kit/core";
import { createSemaphore, SemaphoreTimeoutError } from "@kit/semaphore";

await using redis = await connect();
await using tables = createSemaphore(redis, "tables", { permits: 2 });
const first = await tables.acquire();
const second = await tables.acquire();

// One try: null means full. An unreachable Redis is an error.
try {
  const third = await tables.tryAcquire();
  console.log(third === null ? "full" : "come in"); // prints: full
} catch (error) {
  if (!KitError.is(error) || error.code !== "KIT_UNAVAILABLE") throw error;
  console.log("unknown: Redis does not answer");
}

// A bounded wait; the permit goes back at the end of the block.
try {
  await using third = await tables.acquire({ waitMs: 50 });
  third.assertHeld();
} catch (error) {
  if (!(error instanceof SemaphoreTimeoutError)) throw error;
  console.log(`${error.used} of ${error.permits} in use`); // prints: 2 of 2 in use
}

const waiting = tables.acquire({ waitMs: 5_000 });
await second.release();
await using third = await waiting;
console.log(first.isHeld, third.isHeld); // prints: true true
await first.release();
