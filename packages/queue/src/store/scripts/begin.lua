-- begin.lua - records that a job starts.
-- It is called for a job that one more crash would make a dead letter. Only a job that started is charged with that crash: a job that
-- waited in the memory of a process did not cause its death.
--
-- KEYS[1]  leases    zset    take id and entry to the instant at which the lease ends, ms
-- KEYS[2]  failures  hash    id to attempts, crashes, last error
-- ARGV[1]  member    string  of `leases`
--
-- Reply    1; 0 if the lease is no longer held
local leases = KEYS[1]
local failures = KEYS[2]
local member = ARGV[1]

-- Libraries

local id = idOf(leasedEntry(member))
local record = redis.call('HGET', failures, id)
if not redis.call('ZSCORE', leases, member) then return 0 end
allowWrites(leases)
local attempts, crashes, last = parseRecord(record)
redis.call('HSET', failures, id, string.format('%s\t%d %s\t%s', attempts, crashes, takeIdOf(member), last))
return 1
