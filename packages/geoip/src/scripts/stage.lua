-- stage.lua - stores fields of a hash together with its expiry, so that a crash leaves nothing that stays.
--
-- KEYS[1]  target     hash     a shard or the record of a version that does not serve yet
-- ARGV[1]  stagingMs  integer  time to live, milliseconds
-- ARGV[n]  fields     string   names and values in turn, at most 1,000
--
-- Reply     1  stored
local target = KEYS[1]
local stagingMs = ARGV[1]
local fields = { unpack(ARGV, 2) }

redis.call('HSET', target, unpack(fields))
redis.call('PEXPIRE', target, stagingMs)
return 1
