import Bottleneck from "bottleneck";
import { Redis } from "ioredis";

const client = new Redis(process.env["REDIS_URL"]!);
const connection = new Bottleneck.IORedisConnection({ client });
const limiter = new Bottleneck({ id: "pdf", datastore: "ioredis", connection, minTime: 20, maxConcurrent: 1 });

const render = async (page: number): Promise<void> => {
  await new Promise((resolve) => setTimeout(resolve, 30));
  console.log(`page ${page}`);
};
await Promise.all([1, 2].map((page) => limiter.schedule(render, page)));
// prints: page 1
// prints: page 2

await connection.disconnect(false);
client.disconnect();
