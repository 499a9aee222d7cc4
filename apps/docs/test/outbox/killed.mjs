// Makes one step of a relay, and dies by SIGKILL before one of its calls, or at its end.
import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import pg from "pg";
import { Relay } from "./outbox.mjs";

const last = process.env["BEFORE"];
const reach = (call) => {
  if (call === last) process.kill(process.pid, "SIGKILL");
};

const redis = await connect({ url: process.env["REDIS_URL"], deadlineMs: 60_000 });
const queue = createQueue(redis, "shop");
const client = new pg.Client(process.env["DATABASE_URL"]);
await client.connect();
const query = client.query.bind(client);
client.query = (text, values) => {
  reach(text.split(" ")[0]);
  return query(text, values);
};
const add = queue.add.bind(queue);
queue.add = (...operands) => {
  reach("add");
  return add(...operands);
};
await new Relay(queue).step(client);
reach("end");
throw new Error(`There is no call ${last}`);
