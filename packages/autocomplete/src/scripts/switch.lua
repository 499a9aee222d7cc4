-- switch.lua - ends a rebuild: makes the staged generation current, and removes the one before.
--
-- KEYS[1]  index    hash    layout, current generation, settings of each, token of a rebuild
-- KEYS[2]  live     set     ids that were written while a rebuild ran
-- KEYS[3]  aRows    zset    `suffix NUL kind id`
-- KEYS[4]  aRanked  zset    `prefix NUL rank rest NUL kind id`
-- KEYS[5]  aItems   hash    id to its record
-- KEYS[6]  bRows    zset    the same of the other generation
-- KEYS[7]  bRanked  zset    the same
-- KEYS[8]  bItems   hash    the same
-- ARGV[1]  token    string  of the rebuild; sent again, nothing changes
--
-- Reply     1  done, now or by an earlier copy
--           0  the rebuild is over: another took its place, or it took too long; nothing changed
local index = KEYS[1]
local live = KEYS[2]
local aRows = KEYS[3]
local aRanked = KEYS[4]
local aItems = KEYS[5]
local bRows = KEYS[6]
local bRanked = KEYS[7]
local bItems = KEYS[8]
local token = ARGV[1]

local current, staging, switched = unpack(redis.call('HMGET', index, 'current', 'staging', 'switched'))
if switched == token then return 1 end
local before = { aRows, aRanked, aItems, name = 'a' }
local after = { bRows, bRanked, bItems, name = 'b' }
if current == 'b' then
  before, after = after, before
end
local function finish(old, new)
  -- Shrinks first: allowed at maxmemory, and so is what follows.
  redis.call('HDEL', new[3], '')
  for i = 1, 3 do
    redis.call('PERSIST', new[i])
  end
  redis.call('UNLINK', old[1], old[2], old[3], live)
  redis.call('HDEL', index, 'staging', old.name)
  redis.call('HSET', index, 'current', new.name, 'switched', token)
  return 1
end
local function markerOf(generation)
  return redis.call('HGET', generation[3], '')
end
if staging ~= token or markerOf(after) ~= token then return 0 end
return finish(before, after)
