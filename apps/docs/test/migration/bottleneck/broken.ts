import Bottleneck from "bottleneck";
import { Redis } from "ioredis";

const client = new Redis(process.env["REDIS_URL"]!);
const connection = new Bottleneck.IORedisConnection({ client });
const limiter = new Bottleneck({ id: "crm", datastore: "ioredis", connection, minTime: 50 });

const update = async (customer: string): Promise<void> => {
  try {
    await limiter.schedule(() => Promise.resolve(console.log(`updated ${customer}`)));
  } catch (error) {
    console.log(`${customer}: ${(error as Error).message}`);
  }
};
await update("ann"); // prints: updated ann

// As after a restart without data, an eviction, or the end of `timeout`, which a Group sets to five minutes.
await client.flushall();
await update("bob"); // prints: bob: ERR SETTINGS_KEY_NOT_FOUND
await update("cy"); // prints: cy: ERR SETTINGS_KEY_NOT_FOUND

await connection.disconnect(false);
client.disconnect();
