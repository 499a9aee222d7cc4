-- lists.lua - reads the largest members of several sorted sets of one slot.
--
-- KEYS[n]  lists  zset     what to read
-- ARGV[1]  limit  integer  how many of each
--
-- Reply     for each key an array of its members and scores, the largest first
local lists = KEYS
local limit = tonumber(ARGV[1])

local found = {}
for index, key in ipairs(lists) do
  found[index] = redis.call('ZREVRANGE', key, 0, limit - 1, 'WITHSCORES')
end
return found
