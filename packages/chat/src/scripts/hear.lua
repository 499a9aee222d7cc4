-- hear.lua - notes in each shard that somebody hears of positions that move, for a time.
--
-- KEYS[n]  heads    hash     for each shard: chat to `head floor headAt bytes floorBytes`; the empty field: until when
-- ARGV[1]  leaseMs  integer  for how long
--
-- Reply     0  where there are chats: elsewhere nothing can move
local heads = KEYS
local leaseMs = tonumber(ARGV[1])

-- Libraries

local heardUntil = int(readClock() + leaseMs)
for _, shard in ipairs(heads) do
  if redis.call('EXISTS', shard) == 1 then redis.call('HSET', shard, '', heardUntil) end
end
return 0
