-- release.lua - removes the lease on one server, if it is this caller's.
--
-- KEYS[1]  lease  string  who holds it: `token|holder`
-- ARGV[1]  owner  string  who releases it, in the same form
--
-- Reply     1  removed
--           0  there was none, or it is another caller's
local lease = KEYS[1]
local owner = ARGV[1]

if redis.call('GET', lease) ~= owner then return 0 end
return redis.call('DEL', lease)
