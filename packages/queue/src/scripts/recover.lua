-- recover.lua - undoes a lost take.
-- The fence of the lost call takes nothing any more, and its jobs are returned.
--
-- KEYS[1]  leases       zset    fence and entry to the instant at which the lease ends, ms
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  wake         zset    markers that wake workers
-- KEYS[5]  revoked      zset    leases that ended without their holder, fences that may take nothing
-- ARGV[1]  fence        string  of the lost call
-- ARGV[2]  cursor       string  0 at first, then what the last call replied
--
-- Reply     {cursor, n}  where to go on, 0: complete; how many were returned by this call
local leases = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local wake = KEYS[4]
local revoked = KEYS[5]
local fence = ARGV[1]
local cursor = ARGV[2]

-- Libraries

redis.call('LLEN', waiting)
redis.call('ZCARD', prioritised)
redis.call('ZCARD', wake)
redis.call('ZCARD', revoked)
-- Removes nothing. At maxmemory Redis allows writes in a script after one that can only free memory.
redis.call('ZREM', leases, '')
local time = redis.call('TIME')
local found = redis.call('ZSCAN', leases, cursor, 'MATCH', fence .. '*', 'COUNT', 1000)
local entries, members = {}, {}
for i = 1, #found[2], 2 do
  members[#members + 1] = found[2][i]
  entries[#members] = leasedEntry(found[2][i])
end
-- The ids of one producer sort in the order in which the jobs were added.
table.sort(entries)
redis.call('ZADD', revoked, string.format('%.0f', time[1] * 1000), fence)
redis.call('PEXPIRE', revoked, 600000)
if #entries > 0 then
  makeReady(waiting, prioritised, entries, true)
  wakeWorker(wake)
end
inBatches(members, function(...) redis.call('ZREM', leases, ...) end)
return { found[1], #entries }
