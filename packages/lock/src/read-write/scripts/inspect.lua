-- inspect.lua - the stored state of a read/write lock; changes nothing.
--
-- KEYS[1]  leases   zset     record `mode|token|holder` to the end of its lease, in epoch milliseconds; mode `r` or `w`
-- KEYS[2]  fence    string   `1:` and the last fencing token; 0: none yet
-- KEYS[3]  queue    zset     record to ticket, in order of arrival
-- KEYS[4]  waiters  hash     record to `aliveUntil watched grantMs inbox asked`; `#` to the last ticket
-- ARGV[1]  first    integer  how many leases and waiters to show
--
-- Reply     {fence, holding, waiting, {record, msLeft, …}, {record, …}}  the leases that end last, and the first waiters in order
--           error KIT_LAYOUT  written by a newer version, or damaged
local leases = KEYS[1]
local fence = KEYS[2]
local queue = KEYS[3]
local waiters = KEYS[4]
local first = tonumber(ARGV[1])

local stored = redis.call('GET', fence)
if not nextFence(stored, 0) then return redis.error_reply(layoutError) end
failOnOtherType({ hash = waiters })
local now = readClock()
local held = {}
local latest = redis.call('ZRANGE', leases, -first, -1, 'WITHSCORES')
for i = #latest - 1, 1, -2 do
  local record, msLeft = latest[i], latest[i + 1] - now
  if msLeft > 0 then
    held[#held + 1] = record
    held[#held + 1] = msLeft
  end
end
return {
  stored or '',
  redis.call('ZCOUNT', leases, '(' .. string.format('%.0f', now), '+inf'),
  redis.call('ZCARD', queue),
  held,
  redis.call('ZRANGE', queue, 0, first - 1),
}
