-- touch.lua - adds to the weight of one item.
--
-- KEYS[1]  index         hash  layout, settings, those of a rebuild and its token
-- KEYS[2]  ops           zset  operation id to server milliseconds, of the last minute
-- KEYS[3]  live          set   ids that were written while a rebuild ran
-- KEYS[4]  rows          zset  `suffix NUL kind id`; alphabetical: with a tag before and the item behind
-- KEYS[5]  ranked        zset  `prefix NUL rank rest NUL kind id`
-- KEYS[6]  items         hash  id to `revision NUL weight NUL starts NUL fold NUL text [NUL payload]`
-- KEYS[7]  stagedRows    zset  the same three of a rebuild
-- KEYS[8]  stagedRanked  zset  the second
-- KEYS[9]  stagedItems   hash  the third; the empty id has the token of the rebuild
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
local rows = KEYS[4]
local ranked = KEYS[5]
local items = KEYS[6]
local stagedRows = KEYS[7]
local stagedRanked = KEYS[8]
local stagedItems = KEYS[9]
local op = ARGV[1]
local id = ARGV[2]
local by = tonumber(ARGV[3])

-- Libraries

local current = { rows = rows, ranked = ranked, items = items }
local other = { rows = stagedRows, ranked = stagedRanked, items = stagedItems }
local problem = openIndex(index, current, other)
if problem then return redis.error_reply(problem) end
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
