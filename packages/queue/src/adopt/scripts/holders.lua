-- holders.lua - reads deduplication keys of a BullMQ queue. Changes nothing.
--
-- KEYS[n]  pairs  any  two for each: `de:…`, the id of the job that has the key; and `dn:…`, the job that waits until that job ends
--
-- Reply     {holder, ttlMs, hasNext, …}  three for each: an id or empty, -1 without an expiry, 1 if another job waits
local pairs = { unpack(KEYS, 1) }

local reply = {}
for i = 1, #pairs, 2 do
  local n = #reply
  reply[n + 1] = redis.call('GET', pairs[i]) or ''
  reply[n + 2] = redis.call('PTTL', pairs[i])
  reply[n + 3] = redis.call('EXISTS', pairs[i + 1])
end
return reply
