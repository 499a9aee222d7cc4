-- weights.lua - the weights of some items.
--
-- KEYS[1]  items         hash  id to `revision NUL weight NUL starts NUL fold NUL text [NUL payload]`
-- ARGV[n]  ids     string  the items
--
-- Reply     the weight of each, as text; empty: the shard does not have it
local items = KEYS[1]
local ids = ARGV

local weights = {}
for i, record in ipairs(redis.call('HMGET', items, unpack(ids))) do
  weights[i] = record and string.match(record, '^%d+%z(%d+)%z') or ''
end
return weights
