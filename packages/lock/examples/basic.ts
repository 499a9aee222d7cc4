import { connect } from "@kit/core";
import { createLock } from "@kit/lock";

const redis = await connect();
const lock = createLock(redis);

await lock.using("item:42", async (lease) => {
  // Nobody else is in here for item:42, on any machine.
  await redis.hset("item:42", { state: "sold", fencingToken: lease.fencingToken });
  console.log("sold"); // prints: sold
});

await lock.close();
await redis.close();
