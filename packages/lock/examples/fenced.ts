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
  reply: (saved) => saved === 1,
});

const redis = await connect();
const lock = createLock(redis);

await lock.using("document:7", async ({ fencingToken }) => {
  const saved = await save.run(redis, { document: "document:7" }, { fence: fencingToken, text: "hello" });
  console.log(saved ? "saved" : "refused: a newer holder has written since");
  // prints: saved
});

await lock.close();
await redis.close();
