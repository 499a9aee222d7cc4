import { defineScript, keyspace } from "@kit/core";
import { attach } from "@kit/core/toolkit";
import { Redis } from "ioredis";

const bump = defineScript({
  name: "visits.bump",
  source: `
    local count = KEYS[1]
    return redis.call("INCR", count)
  `,
  keys: ["count"],
  args: [],
  reply: Number,
});

// A client that others keep busy, or block.
const busy = new Redis(process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379");
const blocked = busy.blpop("nothing", 0).catch(() => "the client was closed");

const context = attach(busy, { isolate: true });
console.log(await bump.run(context, { count: keyspace("visits").key("front page", "count") }, {}));
context.detach();

busy.disconnect();
console.log(await blocked);
