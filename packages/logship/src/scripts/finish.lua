-- finish.lua - ends open files whose shippers have gone: what is committed is all of them.
--
-- KEYS[1]  channel       hash     limit, used, reserved, fence
-- KEYS[2]  files         hash     `<id>:<fact>` of each file
-- KEYS[3]  live          zset     file id, scored by itself
-- KEYS[4]  leases        zset     `<id> <fence>` to the ms at which the reservation ends
-- KEYS[5]  reservations  hash     `<id> <fence>` to bytes
-- ARGV[1]  silentMs      integer  only those that were opened, and had their last commit, so long ago
-- ARGV[2]  events        string   Pub/Sub channel for hints
--
-- Reply     the names of the files that this call ended
local channel = KEYS[1]
local files = KEYS[2]
local live = KEYS[3]
local leases = KEYS[4]
local reservations = KEYS[5]
local silentMs = tonumber(ARGV[1])
local events = ARGV[2]

-- Libraries

local now = readClock()
redis.call('HLEN', channel)
redis.call('HLEN', reservations)
redis.call('ZCARD', leases)
local names = {}
for _, id in ipairs(redis.call('ZRANGE', live, 0, -1)) do
  local facts = redis.call('HMGET', files, id .. ':state', id .. ':fence', id .. ':at', id .. ':name')
  local lease = id .. ' ' .. (facts[2] or '')
  local ending = redis.call('ZSCORE', leases, lease)
  local isAtWork = ending and tonumber(ending) > now
  if facts[1] == 'open' and tonumber(facts[3] or '0') <= now - silentMs and not isAtWork then
    lowerReservation(channel, leases, reservations, lease, math.huge)
    -- The fence is for a shipper that comes back late.
    redis.call('HSET', files, id .. ':state', 'sealed', id .. ':fence', redis.call('HINCRBY', channel, 'fence', 1), id .. ':sha256', '')
    names[#names + 1] = facts[4]
  end
end
if #names > 0 then
  redis.call('PUBLISH', events, 'data')
  redis.call('PUBLISH', events, 'space')
end
return names
