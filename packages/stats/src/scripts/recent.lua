-- recent.lua - reads the last entries of several streams of one slot.
--
-- KEYS[n]  streams  stream   the levels of a log
-- ARGV[n]  terms    string   limit (how many of each), then for each stream the id to begin at, as XREVRANGE takes it
--
-- Reply     for each key an array of its entries, the newest first
local streams = KEYS
local terms = ARGV

local found = {}
for index, key in ipairs(streams) do
  found[index] = redis.call('XREVRANGE', key, terms[index + 1], '-', 'COUNT', terms[1])
end
return found
