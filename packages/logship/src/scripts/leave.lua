-- leave.lua - a shipper gives its reservation back, and leaves the file as it is for another one to go on.
--
-- KEYS[1]   channel       hash   the record of the channel
-- KEYS[2]   leases        zset   `<id> <fence>` to the ms at which the reservation ends
-- KEYS[n]  written       string   chunks that were not committed
-- ARGV[1]  lease         string   `<id> <fence>`
-- ARGV[2]  events        string   Pub/Sub channel for hints
--
-- Reply     1  given back, or ended before
local channel = KEYS[1]
local leases = KEYS[2]
local written = { unpack(KEYS, 3) }
local lease = ARGV[1]
local events = ARGV[2]

-- Libraries

-- Only chunks that were never committed have an expiry.
for _, key in ipairs(written) do
  if redis.call('PTTL', key) > 0 then redis.call('UNLINK', key) end
end
lowerReservation(channel, lease, math.huge)
redis.call('ZREM', leases, lease)
redis.call('PUBLISH', events, 'space')
return 1
