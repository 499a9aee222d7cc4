-- reserve.lua - raises a shipper's reservation of bytes, never above the limit of the channel.
--
-- KEYS[1]   channel       hash   the record of the channel
-- KEYS[2]   files         hash   `<id>:<fact>` of each file
-- KEYS[3]   live          zset   file id, scored by itself
-- KEYS[4]   leases        zset   `<id> <fence>` to the ms at which the reservation ends
-- KEYS[5]   free          hash   key-part of a chunk that no consumer needs to the bytes it counts for
-- ARGV[1]  file          string   id
-- ARGV[2]  fence         string   of the shipper
-- ARGV[3]  want          integer  bytes to have reserved
-- ARGV[4]  chunkBytes    integer  largest chunk of this shipper, stored bytes
-- ARGV[5]  leaseMs       integer  life of the reservation, milliseconds
--
-- Reply     {1, bytes, endsAt, unit}   so many bytes are reserved; a chunk counts for `unit` at most
--           {2, msLeft, unit, limit, part, …}  no space; the nearest reservation ends in `msLeft` (-1: there is none); parts to unlink
--           {0}                        another shipper has this file
--           {4}                        there is no such file any more
local channel = KEYS[1]
local files = KEYS[2]
local live = KEYS[3]
local leases = KEYS[4]
local free = KEYS[5]
local file = ARGV[1]
local fence = ARGV[2]
local want = tonumber(ARGV[3])
local chunkBytes = tonumber(ARGV[4])
local leaseMs = tonumber(ARGV[5])

-- Libraries

local owner = redis.call('HGET', files, file .. ':fence')
if owner ~= fence then return { owner and 0 or 4 } end
local now = readClock()
local unit = heldBytes(chunkBytes)
-- Returns reservations that have ended: the chunks written under them have expired as well.
local ended = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 100)
for _, other in ipairs(ended) do lowerReservation(channel, other, math.huge) end
local lease = file .. ' ' .. fence
redis.call('HSET', files, file .. ':unit', unit)
local spare = spareFor(channel, files, live, file)
local have = raiseReservation(channel, leases, lease, math.max(want, unit), unit, spare, now, leaseMs)
local nearest = have < unit and redis.call('ZRANGEBYSCORE', leases, '(' .. string.format('%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
for _, other in ipairs(ended) do
  if other ~= lease or have == 0 then redis.call('ZREM', leases, other) end
end
if not nearest then return { 1, have, now + leaseMs, unit } end
-- After a hundred, more may have ended.
local reply = { 2, #ended == 100 and 0 or nearest[2] and nearest[2] - now or -1, unit, redis.call('HGET', channel, 'limit') }
for _, part in ipairs(redis.call('HRANDFIELD', free, 200)) do reply[#reply + 1] = part end
return reply
