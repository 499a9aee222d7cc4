-- stage.lua - stores fields of a hash together with its expiry, so that whatever a crash leaves behind expires.
--
-- KEYS[1]  target     hash     a shard or the record of a version that does not serve yet
-- ARGV[1]  stagingMs  integer  time to live, milliseconds
-- ARGV[n]  fields     string   names and values in turn, at most 1,000
--
-- Reply     1  stored; or the key is permanent, and a late repeat of an earlier call changes nothing
local target = KEYS[1]
local stagingMs = ARGV[1]
local fields = { unpack(ARGV, 2) }

-- A key of another type is refused, even a permanent one.
redis.call('HGET', target, 'epoch')
if redis.call('PTTL', target) == -1 then return 1 end
redis.call('HSET', target, unpack(fields))
redis.call('PEXPIRE', target, stagingMs)
return 1
