-- finish.lua - ends open files whose shippers have gone. Their sources can be shipped again, as other files.
--
-- KEYS[1]   channel       hash   the record of the channel
-- KEYS[2]   files         hash   `<id>:<fact>` of each file
-- KEYS[3]   live          zset   file id, scored by itself
-- KEYS[4]   sources       hash   source identity to file id; once done also its totals
-- KEYS[5]   leases        zset   `<id> <fence>` to the ms at which the reservation ends
-- KEYS[6]   reservations  hash   `<id> <fence>` to bytes
-- ARGV[1]  silentMs      integer  only those that were opened, and had their last commit, so long ago
-- ARGV[2]  fault         string   why they end
-- ARGV[3]  events        string   Pub/Sub channel for hints
--
-- Reply     the names of the files that this call ended
local channel = KEYS[1]
local files = KEYS[2]
local live = KEYS[3]
local sources = KEYS[4]
local leases = KEYS[5]
local reservations = KEYS[6]
local silentMs = tonumber(ARGV[1])
local fault = ARGV[2]
local events = ARGV[3]

-- Libraries

local now = readClock()
redis.call('HLEN', channel)
redis.call('HLEN', sources)
redis.call('HLEN', reservations)
redis.call('ZCARD', leases)
local names = {}
for _, id in ipairs(redis.call('ZRANGE', live, 0, -1)) do
  local facts = redis.call('HMGET', files, id .. ':state', id .. ':fence', id .. ':at', id .. ':name', id .. ':source')
  local lease = id .. ' ' .. (facts[2] or '')
  local ending = redis.call('ZSCORE', leases, lease)
  local isAtWork = ending and tonumber(ending) > now
  if facts[1] == 'open' and tonumber(facts[3] or '0') <= now - silentMs and not isAtWork then
    lowerReservation(channel, leases, reservations, lease, math.huge)
    -- The fence is for a shipper that comes back late.
    redis.call('HSET', files, id .. ':state', 'sealed', id .. ':fence', redis.call('HINCRBY', channel, 'fence', 1), id .. ':sha256', '',
      id .. ':fault', fault)
    redis.call('HDEL', sources, facts[5])
    forgetNeed(channel, id)
    names[#names + 1] = facts[4]
  end
end
if #names > 0 then
  redis.call('PUBLISH', events, 'data')
  redis.call('PUBLISH', events, 'space')
end
return names
