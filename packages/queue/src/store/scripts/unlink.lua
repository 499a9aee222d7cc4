-- unlink.lua - deletes keys.
-- The server frees their memory in the background.
--
-- KEYS[n]  others  any  keys of one queue
--
-- Reply     n  how many there were
local others = KEYS

return redis.call('UNLINK', unpack(others))
