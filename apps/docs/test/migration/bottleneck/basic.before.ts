import Bottleneck from "bottleneck";
import { Redis } from "ioredis";

const client = new Redis(process.env["REDIS_URL"]!);
const connection = new Bottleneck.IORedisConnection({ client });
const limiter = new Bottleneck({ id: "crm", datastore: "ioredis", connection, minTime: 50 });

for (const customer of ["ann", "bob"])
  await limiter.schedule(() => Promise.resolve(console.log(`updated ${customer}`)));
// prints: updated ann
// prints: updated bob

await connection.disconnect(false);
client.disconnect();
