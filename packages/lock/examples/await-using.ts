import { connect } from "@kit/core";
import { createLock, LockTimeoutError } from "@kit/lock";

await using redis = await connect();
await using lock = createLock(redis);

try {
  await using lease = await lock.acquire("report", { waitMs: 2_000 });
  // Pass the signal on: it aborts if the lease is lost.
  await fetchNumbers(lease.signal);
  // Before an action that must not be done twice: compares clocks, and throws if the lease is over.
  lease.assertHeld();
  console.log("report written"); // prints: report written
} catch (error) {
  if (!(error instanceof LockTimeoutError)) throw error;
  console.log(`held by ${error.holder ?? "somebody"}; ${error.msLeft ?? "?"} ms were left of that lease`);
}

async function fetchNumbers(signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
}
