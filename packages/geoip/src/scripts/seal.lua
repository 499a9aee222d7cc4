-- seal.lua - notes that the version that serves is permanent in all its shards, and lets the one before expire.
--
-- KEYS[1]  current   hash     layout, current, previous, epoch, isSealed, keepMs, at
-- KEYS[2]  previous  hash     the record of the version before; without one any missing key of the slot
-- ARGV[1]  version   string   the version that was made permanent
-- ARGV[2]  epoch     integer  the switch by which it was
-- ARGV[3]  keepMs    integer  how long the one before is kept, milliseconds
--
-- Reply     1  sealed, now or before
--           0  there was another switch; nothing was changed
local current = KEYS[1]
local previous = KEYS[2]
local version = ARGV[1]
local epoch = ARGV[2]
local keepMs = ARGV[3]

local found = redis.call('HMGET', current, 'current', 'epoch', 'isSealed')
if found[1] ~= version or found[2] ~= epoch then return 0 end
if found[3] == '1' then return 1 end
redis.call('PEXPIRE', previous, keepMs)
redis.call('HSET', current, 'isSealed', '1')
return 1
