import { createHash } from "node:crypto";
import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";

type Jobs = { order: (data: { customer: string }) => void };
const redis = await connect();
// Each queue has its own slot. Two slots can be on the same node, so use more queues than nodes.
const shards = [0, 1, 2, 3].map((shard) => createQueue<Jobs>(redis, `orders-${String(shard)}`));

/** All jobs of a customer are in one queue. */
const shardOf = (customer: string): (typeof shards)[number] | undefined =>
  shards[createHash("sha1").update(customer).digest().readUInt32BE() % shards.length];

let handled = 0;
const done = new Promise<void>((resolve) => {
  for (const queue of shards)
    queue.work({
      order: () => {
        if (++handled === 8) resolve();
      },
    });
});

for (let customer = 0; customer < 8; customer++)
  await shardOf(`customer-${String(customer)}`)?.add("order", { customer: `customer-${String(customer)}` });
await done;
console.log(`${String(handled)} orders`); // prints: 8 orders

await Promise.all(shards.map((queue) => queue.close()));
await redis.close();
