-- purge.lua - deletes one shard of an index with a rebuild that is under way, or a contact book.
--
-- KEYS[n]  keys  any  all of its keys
--
-- Reply     how many there were
local keys = KEYS

return redis.call('UNLINK', unpack(keys))
