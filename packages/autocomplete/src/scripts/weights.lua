-- weights.lua - what some items weigh in one shard; changes nothing.
--
-- KEYS[1]  index   hash    layout, current generation, settings of each
-- KEYS[2]  aItems  hash    id to its record
-- KEYS[3]  bItems  hash    the same of the other generation
-- ARGV[n]  ids     string  the items
--
-- Reply     the weight of each, as text; empty: the shard does not have it
local index = KEYS[1]
local aItems = KEYS[2]
local bItems = KEYS[3]
local ids = ARGV

local items = aItems
if redis.call('HGET', index, 'current') == 'b' then items = bItems end
local weights = {}
for i, record in ipairs(redis.call('HMGET', items, unpack(ids))) do
  weights[i] = record and string.match(record, '^%d+%z(%d+)%z') or ''
end
return weights
