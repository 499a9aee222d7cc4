import { once } from "node:events";
import { connect, defineScript } from "@kit/core";
import { createLock } from "@kit/lock";

// The resource refuses writes that carry an older token than the newest it has seen.
const save = defineScript({
  name: "example.save",
  source: `
    local newest = redis.call('HGET', KEYS[1], 'fence')
    if newest and tonumber(newest) > tonumber(ARGV[1]) then return 0 end
    redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'text', ARGV[2])
    return 1`,
  keys: ["document"],
  args: ["fence", "text"],
  reply: (saved) => (saved === 1 ? "saved" : "refused"),
});

const redis = await connect();
const lock = createLock(redis);

// This holder sleeps past its lease, and does not look at its signal.
const first = await lock.acquire("report", { leaseMs: 1_000, renew: false });
await once(first.signal, "abort");

const second = await lock.acquire("report");
const write = (fence: string, text: string) => save.run(redis, { document: "report" }, { fence, text });
console.log(await write(second.fencingToken, "new")); // prints: saved
console.log(await write(first.fencingToken, "old")); // prints: refused

await second.release();
await lock.close();
await redis.close();
