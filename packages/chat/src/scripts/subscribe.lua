-- subscribe.lua - makes acknowledgements in some shards announce moved positions, for a time.
--
-- KEYS[n]  heads    hash     for each shard: chat to `head floor headAt bytes floorBytes`; the empty field: until when positions are announced
-- ARGV[1]  leaseMs  integer  for how long
--
-- Reply     0  subscribed; a shard without chats stores nothing, since no position can move there
local heads = KEYS
local leaseMs = tonumber(ARGV[1])

-- Libraries

local subscribedUntil = int(readClock() + leaseMs)
for _, shard in ipairs(heads) do
  if redis.call('EXISTS', shard) == 1 then redis.call('HSET', shard, '', subscribedUntil) end
end
return 0
