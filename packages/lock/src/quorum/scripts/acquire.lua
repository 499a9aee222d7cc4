-- acquire.lua - gives the vote of one server: takes the lease if it is free.
--
-- KEYS[1]  lease  string  who holds it: `token|holder`
-- ARGV[1]  owner  string  who takes it, in the same form
-- ARGV[2]  terms  string  `leaseMs notAfter guardMs isAsked`: its length; server epoch ms after which the server refuses it, 0 if
--                         not known; if `isAsked` is 1, the server identifies itself, and abstains below this age
--
-- Reply     now  granted to a caller that does not ask for the server's identity
--           {code, now, server, msLeft, owner}, `server` as from serverFacts
--            1  granted
--            5  granted before to the same token
--            2  another caller holds it, for `msLeft`; -1: for ever
--            3  it abstains, for `msLeft`
--            4  the request came too late
-- Libraries
local lease = KEYS[1]
local owner = ARGV[1]
local terms = ARGV[2]

local leaseMs, notAfter, guardMs, isAsked = string.match(terms, '^(%d+) (%d+) (%d+) (%d)$')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local server, ageMs = serverFacts(isAsked)
local found = redis.call('GET', lease)
if found == owner then return { 5, now, server } end
if found then return { 2, now, server, redis.call('PTTL', lease), found } end
if notAfter ~= '0' and now > tonumber(notAfter) then return { 4, now, server } end
if ageMs < tonumber(guardMs) then return { 3, now, server, tonumber(guardMs) - ageMs } end
redis.call('SET', lease, owner, 'PX', leaseMs)
if server == '' then return now end
return { 1, now, server }
