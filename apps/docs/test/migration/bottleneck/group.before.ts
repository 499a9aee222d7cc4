import Bottleneck from "bottleneck";
import { Redis } from "ioredis";

const client = new Redis(process.env["REDIS_URL"]!);
const connection = new Bottleneck.IORedisConnection({ client });
// For each customer: ten calls together, then ten each second.
const group = new Bottleneck.Group({
  id: "api",
  datastore: "ioredis",
  connection,
  reservoir: 10,
  reservoirIncreaseAmount: 10,
  reservoirIncreaseInterval: 1_000,
  reservoirIncreaseMaximum: 10,
});

for (const customer of ["ann", "bob", "ann"])
  await group.key(customer).schedule({ weight: 2 }, () => Promise.resolve(console.log(`asked for ${customer}`)));
// prints: asked for ann
// prints: asked for bob
// prints: asked for ann

await connection.disconnect(false);
client.disconnect();
