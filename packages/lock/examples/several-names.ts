import { connect } from "@kit/core";
import { createLock } from "@kit/lock";

const redis = await connect();
const lock = createLock(redis);

// In whatever order others name them: no two callers wait for each other.
await lock.usingAll(["account:bob", "account:ann"], async ({ fencingTokens, signal }) => {
  // The signal aborts when one of the two is lost; each name has a fencing token of its own.
  signal.throwIfAborted();
  console.log(`moved under ${fencingTokens.size} locks`); // prints: moved under 2 locks
});

await lock.close();
await redis.close();
