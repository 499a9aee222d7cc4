-- purge.lua - deletes keys.
--
-- KEYS[n]  keys  any  all of its keys
--
-- Reply     how many there were
local keys = KEYS

return redis.call('UNLINK', unpack(keys))
