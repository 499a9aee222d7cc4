-- handBack.lua - returns jobs to the queue.
-- Jobs that were taken and not run go back to the front, in their order.
--
-- KEYS[1]  leases       zset    fence and entry to the instant at which the lease ends, ms
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  wake         zset    markers that wake workers
-- ARGV[1]  members      string  members of `leases`, one a line
--
-- Reply     n  how many were returned; the others were no longer held
local leases = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local wake = KEYS[4]
local members = ARGV[1]

-- Libraries

redis.call('LLEN', waiting)
redis.call('ZCARD', prioritised)
redis.call('ZCARD', wake)
local entries = {}
for member in string.gmatch(members, '[^\n]+') do
  if redis.call('ZREM', leases, member) == 1 then entries[#entries + 1] = leasedEntry(member) end
end
if #entries > 0 then
  makeReady(waiting, prioritised, entries, true)
  wakeWorker(wake)
end
return #entries
