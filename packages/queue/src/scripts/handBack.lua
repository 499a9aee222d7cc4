-- handBack.lua - returns jobs to the queue.
-- Jobs that were taken and not run to their end go back to the front, in their order.
--
-- KEYS[1]  leases       zset    fence and entry to the instant at which the lease ends, ms
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  wake         zset    markers that wake workers
-- ARGV[1]  members      string  members of `leases`, one a line
-- ARGV[2]  after        string  entries that were handed back before and belong in front of these, one a line, nearest first
--
-- Reply     n  how many were returned; the others were no longer held
local leases = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local wake = KEYS[4]
local members = ARGV[1]
local after = ARGV[2]

-- Libraries

redis.call('LLEN', waiting)
redis.call('ZCARD', prioritised)
redis.call('ZCARD', wake)
-- Removes nothing. At maxmemory Redis allows writes in a script after one that can only free memory.
redis.call('ZREM', leases, '')
local entries, held = {}, {}
for member in string.gmatch(members, '[^\n]+') do
  if not held[member] and redis.call('ZSCORE', leases, member) then
    held[member] = true
    held[#held + 1] = member
    entries[#held] = leasedEntry(member)
  end
end
local pivot
for entry in string.gmatch(#entries > 0 and after or '', '[^\n]+') do
  pivot = pivot or redis.call('LPOS', waiting, entry, 'MAXLEN', 100) and entry
end
if pivot then
  local others = {}
  for i = #entries, 1, -1 do
    if string.byte(entries[i]) == 33 then table.insert(others, 1, entries[i])
    else redis.call('LINSERT', waiting, 'AFTER', pivot, entries[i]) end
  end
  makeReady(waiting, prioritised, others, true)
  wakeWorker(wake)
elseif #entries > 0 then
  makeReady(waiting, prioritised, entries, true)
  wakeWorker(wake)
end
inBatches(held, function(...) redis.call('ZREM', leases, ...) end)
return #entries
