import { connect } from "@kit/core";
import { durable } from "@kit/core/durable";

const redis = await connect();

const { value, outcome, replicas, why } = await durable(
  redis,
  { key: "order:7", replicas: 1, timeoutMs: 100 },
  async (order) => {
    await order.call("HSET", "order:7", "state", "paid");
    return await order.call("EXPIRE", "order:7", 3_600);
  },
);
// This server has no replica. With one that keeps up: safe, 1 and undefined.
console.log(value, outcome, replicas, why);

await redis.close();
