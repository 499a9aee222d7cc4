import { defineScript, keyspace } from "@kit/core";
import { Redis } from "ioredis";

const keys = keyspace("limit");
const redis = new Redis(process.env["REDIS_URL"]!);

/** Counts a call. It gives the key its end in the same step, and also mends one without an end. */
const count = defineScript({
  name: "limit.count",
  source: `
    local calls = KEYS[1]
    local windowMs = ARGV[1]
    local count = redis.call("INCR", calls)
    if redis.call("PTTL", calls) < 0 then redis.call("PEXPIRE", calls, windowMs) end
    return count
  `,
  keys: ["calls"],
  args: ["windowMs"],
  reply: Number,
});

/** At most three calls a minute of each user. */
async function isAllowed(user: string): Promise<boolean> {
  return (await count.run(redis, { calls: keys.key(user, "calls") }, { windowMs: 60_000 })) <= 3;
}

for (let call = 1; call <= 4; call++) console.log(call, await isAllowed("ann"));
// prints: 1 true
// prints: 2 true
// prints: 3 true
// prints: 4 false

redis.disconnect();
