import { connect, KitConflictError, optimistic } from "@kit/core";

const redis = await connect();
await redis.set("stock", 3, "PX", 60_000);

try {
  const { value: sold, attempts } = await optimistic(redis, ["stock"], async (tx) => {
    const left = Number(await tx.call("GET", "stock"));
    if (left > 0) tx.queue("DECR", "stock");
    return left > 0;
  });
  console.log(sold ? "sold" : "sold out", attempts);
} catch (error) {
  if (!(error instanceof KitConflictError)) throw error;
  console.log(`${error.attempts} conflicts, nothing was sold`);
}

await redis.close();
