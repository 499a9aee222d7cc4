-- seal.lua - notes that the version that serves is permanent in all its shards, and lets the one before expire.
--
-- KEYS[1]  current   hash     layout, current, previous, isSealed, keepMs
-- KEYS[2]  previous  hash     the record of the version before; of none any key of the slot that is not there
-- ARGV[1]  version   string   the version that was made permanent
-- ARGV[2]  keepMs    integer  how long the one before is kept, milliseconds
--
-- Reply     1  sealed, now or before
--           0  another version serves; nothing was changed
local current = KEYS[1]
local previous = KEYS[2]
local version = ARGV[1]
local keepMs = ARGV[2]

local found = redis.call('HMGET', current, 'current', 'isSealed')
if found[1] ~= version then return 0 end
if found[2] == '1' then return 1 end
redis.call('PEXPIRE', previous, keepMs)
redis.call('HSET', current, 'isSealed', '1')
return 1
