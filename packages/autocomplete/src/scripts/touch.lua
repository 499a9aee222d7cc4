-- touch.lua - adds to the weight of one item.
--
-- KEYS[1]  index    hash     layout, current generation, settings of each, token of a rebuild
-- KEYS[2]  ops      zset     operation id to server milliseconds, of the last minute
-- KEYS[3]  live     set      ids that were written while a rebuild ran
-- KEYS[4]  aRows    zset     `suffix NUL kind id`
-- KEYS[5]  aRanked  zset     `prefix NUL rank rest NUL kind id`
-- KEYS[6]  aItems   hash     id to its record
-- KEYS[7]  bRows    zset     the same of the other generation
-- KEYS[8]  bRanked  zset     the same
-- KEYS[9]  bItems   hash     the same
-- ARGV[1]  op       string   operation id: sent again, nothing changes
-- ARGV[2]  id       string   the item
-- ARGV[3]  by       integer  how much
--
-- Reply     1  done, now or by an earlier copy
--           0  there is no such item
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local index = KEYS[1]
local ops = KEYS[2]
local live = KEYS[3]
local aRows = KEYS[4]
local aRanked = KEYS[5]
local aItems = KEYS[6]
local bRows = KEYS[7]
local bRanked = KEYS[8]
local bItems = KEYS[9]
local op = ARGV[1]
local id = ARGV[2]
local by = tonumber(ARGV[3])

-- Libraries

local a = { rows = aRows, ranked = aRanked, items = aItems }
local b = { rows = bRows, ranked = bRanked, items = bItems }
local current, other = openIndex(index, a, b)
if not current then return redis.error_reply(other) end
if isRepeated(ops, op) then return 1 end
local old = recordOf(current, id)
if not old then return 0 end
rankItem(current, id, old, by)
-- What a rebuild has not read yet gets its weight from there.
local copy = isStaged(other) and recordOf(other, id)
if copy then
  rankItem(other, id, copy, by)
  keepStaged(other, live)
end
remember(ops, op)
return 1
