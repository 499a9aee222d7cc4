import { defineScript } from "@kit/core";

// The guarded resource: it refuses an entry whose fencing token is older than that of the newest entry.
export const append = defineScript({
  name: "example.append",
  source: `
    local newest = redis.call('LINDEX', KEYS[1], -1)
    if newest and tonumber(string.match(newest, '^%d+')) > tonumber(ARGV[1]) then return 0 end
    redis.call('RPUSH', KEYS[1], ARGV[1] .. ' ' .. ARGV[2])
    redis.call('LTRIM', KEYS[1], -1000, -1)
    return 1`,
  keys: ["journal"],
  args: ["fence", "text"],
  reply: (appended) => appended === 1,
});
