-- inspect.lua - the stored state of a lease on one server; changes nothing.
--
-- KEYS[1]  lease  string  who holds it: `token|holder`
--
-- Reply     {msLeft, owner}  owner empty: it is free; msLeft -1: it has no end
local lease = KEYS[1]

return { redis.call('PTTL', lease), redis.call('GET', lease) or '' }
