import { connect } from "@kit/core";
import { createLock } from "@kit/lock";

const redis = await connect();
const lock = createLock(redis);

// One of many servers does it; the others do not wait.
const lease = await lock.tryAcquire("nightly-cleanup");
if (lease) {
  console.log("cleaning up"); // prints: cleaning up
  await lease.release();
}

await lock.close();
await redis.close();
