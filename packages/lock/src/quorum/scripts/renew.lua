-- renew.lua - extends the lease on one server, or writes it again if it is missing. It never shortens a lease.
--
-- KEYS[1]  lease  string  who holds it: `token|holder`
-- ARGV[1]  owner  string  who extends it, in the same form
-- ARGV[2]  terms  string  `termMs refillUntil isAsked`: its new length, 0 if it is only looked up; server epoch ms until which the
--                         holder certainly holds it, 0 if not known; if `isAsked` is 1, the server identifies itself
--
-- Reply     {code, now, server, msLeft, owner}, `server` as from serverFacts
--            1  extended; or it lasts longer already; or it exists
--            5  written again
--            2  another caller holds it, for `msLeft`; -1: for ever
--            0  it is gone
-- Libraries
local lease = KEYS[1]
local owner = ARGV[1]
local terms = ARGV[2]

local termMs, refillUntil, isAsked = string.match(terms, '^(%d+) (%d+) (%d)$')
local ms = tonumber(termMs)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local server = serverFacts(isAsked)
local found = redis.call('GET', lease)
if found == owner then
  if ms > 0 and redis.call('PTTL', lease) < ms then redis.call('PEXPIRE', lease, termMs) end
  return { 1, now, server }
end
if found then return { 2, now, server, redis.call('PTTL', lease), found } end
if ms == 0 or now > tonumber(refillUntil) then return { 0, now, server } end
redis.call('SET', lease, owner, 'PX', termMs)
return { 5, now, server }
