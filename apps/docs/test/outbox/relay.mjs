import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import pg from "pg";
import { Relay } from "./outbox.mjs";

const redis = await connect({ url: process.env["REDIS_URL"], deadlineMs: 600_000 }); // it may start in an outage
const queue = createQueue(redis, "shop");
// The server ends a transaction whose relay hangs.
const database = { connectionString: process.env["DATABASE_URL"], idle_in_transaction_session_timeout: 30_000 };
const pool = new pg.Pool(database).on("error", (error) => console.log(`database: ${error.message}`));
pool.on("connect", (client) => client.on("error", () => undefined)); // the query rejects
const relay = new Relay(queue);
const ending = new AbortController();
process.once("SIGTERM", () => ending.abort());

while (!ending.signal.aborted) {
  let found = 0;
  try {
    const client = await pool.connect();
    found = await relay.step(client).finally(() => client.release());
  } catch (error) {
    console.log(`not moved: ${error.message}`);
  }
  if (found === 0) await sleep(500, undefined, { signal: ending.signal }).catch(() => undefined);
}
await queue.close();
await redis.close();
await pool.end();
