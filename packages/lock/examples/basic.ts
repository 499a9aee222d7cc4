import { connect } from "@kit/core";
import { createLock } from "@kit/lock";

const redis = await connect();
const lock = createLock(redis);

await lock.using("item:42", async (lease) => {
  // No other caller, on any machine, is here for item:42.
  await redis.hset("item:42", { state: "sold", fencingToken: lease.fencingToken });
  console.log("sold"); // prints: sold
});

await lock.close();
await redis.close();
