import Bottleneck from "bottleneck";
import { Redis } from "ioredis";

const client = new Redis(process.env["REDIS_URL"]!);
const connection = new Bottleneck.IORedisConnection({ client });
const strategy = Bottleneck.strategy.OVERFLOW;
const limiter = new Bottleneck({
  id: "sms",
  datastore: "ioredis",
  connection,
  minTime: 60_000,
  highWater: 0,
  strategy,
});

for (const to of ["ann", "bob"])
  try {
    await limiter.schedule(() => Promise.resolve(console.log(`sent to ${to}`)));
  } catch (error) {
    if (!(error instanceof Bottleneck.BottleneckError)) throw error;
    console.log(`dropped ${to}`);
  }
// prints: sent to ann
// prints: dropped bob

await connection.disconnect(false);
client.disconnect();
