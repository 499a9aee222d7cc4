import { randomUUID } from "node:crypto";
import { connect, defineScript, keyspace, retry } from "@kit/core";

const keys = keyspace("purse");

/** Moves money once, however often it is sent with the same `done`. */
const transfer = defineScript({
  name: "purse.transfer",
  source: `
    local from = KEYS[1]
    local to = KEYS[2]
    local done = KEYS[3]
    local pence = ARGV[1]
    local rememberMs = ARGV[2]
    if redis.call("SET", done, "", "NX", "PX", rememberMs) then
      redis.call("DECRBY", from, pence)
      redis.call("INCRBY", to, pence)
    end
    return redis.call("GET", to)
  `,
  keys: ["from", "to", "done"],
  args: ["pence", "rememberMs"],
  idempotent: true,
  reply: Number,
});

const redis = await connect();

const op = randomUUID();
const operands = {
  from: keys.key("family", "ada"),
  to: keys.key("family", "lin"),
  done: keys.key("family", `done:${op}`),
};
const pay = () => transfer.run(redis, operands, { pence: 100, rememberMs: 86_400_000 }, { op });
console.log(await retry(pay), "and again:", await retry(pay));

await redis.close();
