-- switch.lua - ends a rebuild.
--
-- KEYS[1]  index         hash  layout, settings, those of a rebuild and its token
-- KEYS[2]  live          set   ids that were written while a rebuild ran
-- KEYS[3]  rows          zset  `suffix NUL kind id`; alphabetical: with a tag before and the item behind
-- KEYS[4]  ranked        zset  `prefix NUL rank rest NUL kind id`
-- KEYS[5]  items         hash  id to `revision NUL weight NUL starts NUL fold NUL text [NUL payload]`
-- KEYS[6]  stagedRows    zset  rows of a rebuild
-- KEYS[7]  stagedRanked  zset  its ranked rows
-- KEYS[8]  stagedItems   hash  its items; the empty id has the token of the rebuild
-- KEYS[9]  absent        hash  never exists
-- ARGV[1]  token    string   of the rebuild; sent again, nothing changes
-- ARGV[2]  batches  integer  how many batches of changes it has written
--
-- Reply     1  done, now or by an earlier call
--           0  the rebuild is over: another took its place, it took too long, or the server lost a batch; nothing changed
local index = KEYS[1]
local live = KEYS[2]
local rows = KEYS[3]
local ranked = KEYS[4]
local items = KEYS[5]
local stagedRows = KEYS[6]
local stagedRanked = KEYS[7]
local stagedItems = KEYS[8]
local absent = KEYS[9]
local token = ARGV[1]
local batches = tonumber(ARGV[2])

local staging, switched, settings, written = unpack(redis.call('HMGET', index, 'staging', 'switched', 'staged', 'batches'))
if switched == token then return 1 end
if staging ~= token or tonumber(written) ~= batches or redis.call('HGET', stagedItems, '') ~= token then return 0 end
-- While the slot moves to another node, a script that empties a key and then fills it would end between the two. This key never
-- exists, so a server refuses the script as a whole there.
redis.call('HLEN', absent)
-- The first write frees memory, so that Redis allows all at maxmemory.
redis.call('UNLINK', rows, ranked, items, live)
redis.call('HDEL', stagedItems, '')
local function rename(from, to)
  -- All staged keys expire, so this shows whether they exist.
  if redis.call('PERSIST', from) == 1 then redis.call('RENAME', from, to) end
end
rename(stagedRows, rows)
rename(stagedRanked, ranked)
rename(stagedItems, items)
redis.call('HDEL', index, 'staging', 'staged', 'batches')
redis.call('HSET', index, 'settings', settings, 'switched', token)
return 1
