-- acquire.lua - takes the key if it is free, as `SET token NX PX` does.
--
-- KEYS[1]  lease  string   the holder's token
-- ARGV[1]  token  string   the caller's, of this acquire alone
-- ARGV[2]  terms  string   `leaseMs notAfter`: time to live of the lease, ms; server epoch ms after which the caller has
--                          given up, 0 for none
--
-- Reply     {1, now, msLeft}  granted, now or by an earlier repeat of this call
--           {0, now, msLeft}  held by another; -1: without an end
--           {2, now}          too late: notAfter has passed
local lease = KEYS[1]
local token = ARGV[1]
local terms = ARGV[2]

local leaseMs, notAfter = string.match(terms, '^(%d+) (%d+)$')
local time = redis.call('TIME')
local now = math.floor(time[1] * 1000 + time[2] / 1000)
if notAfter ~= '0' and now > tonumber(notAfter) then return { 2, now } end
local found = redis.call('GET', lease)
if not found then
  redis.call('SET', lease, token, 'PX', leaseMs)
  return { 1, now, tonumber(leaseMs) }
end
return { found == token and 1 or 0, now, redis.call('PTTL', lease) }
