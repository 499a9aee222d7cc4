-- recover.lua - undoes a lost take.
-- Its jobs go back in their order, as with `handBack`. If the call arrives later, it takes nothing.
--
-- KEYS[1]  leases       zset    take id and entry to the instant at which the lease ends, ms
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  wake         zset    markers that wake workers
-- KEYS[5]  taken        string  the last take in this slot of its worker: its take id, then its entries, one per line
-- KEYS[6]  limits       hash    what keeps jobs from starting
-- KEYS[7]  events       stream  recorded events
-- KEYS[8]  jobs         hash    id to header and payload
-- KEYS[9]  suspended    zset    ready jobs whose names are stopped, see `names.lua`
-- KEYS[10] named        zset    name and member of `leases`, of active jobs whose names have a concurrency, see `names.lua`
-- KEYS[11] grouped  zset    ready jobs that have a group, see `groups.lua`
-- KEYS[12] turns    zset    groups in the order of their turns
-- KEYS[13] held     zset    group and id of each job that has one of its group's places
-- KEYS[14] groups   hash    settings of groups
-- ARGV[1]  takeId       string  of the lost call
--
-- Reply     n  how many jobs were returned
local leases = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local wake = KEYS[4]
local taken = KEYS[5]
local limits = KEYS[6]
local events = KEYS[7]
local jobs = KEYS[8]
local suspended = KEYS[9]
local named = KEYS[10]
local grouped = KEYS[11]
local turns = KEYS[12]
local held = KEYS[13]
local groups = KEYS[14]
local takeId = ARGV[1]

local function takeNumber(record)
  return tonumber(string.sub(record, 8, 12), 36)
end

-- Libraries

failOnOtherType(waiting, prioritised, wake, named)
joinGroups(true, grouped, turns, held, groups)
listen(limits)
allowWrites(leases)
local last = redis.call('GET', taken)
if not last or takeNumber(last) < takeNumber(takeId) then
  redis.call('SET', taken, takeId .. '\n', 'PX', 600000)
  return 0
end
if takeIdOf(last) ~= takeId then return 0 end
local entries, members = heldOf(leases, last)
local leaving = {}
if #entries > 0 then
  local names = refund(limits, #entries)
  local others = returnSuspended(jobs, suspended, names, entries)
  makeReady(waiting, prioritised, enterGroups(others, true), true)
  turnGroups(wake)
  leaving = namedOf(jobs, named, names, members)
  wakeWorker(wake)
end
inBatches(members, function(...) redis.call('ZREM', leases, ...) end)
inBatches(leaving, function(...) redis.call('ZREM', named, ...) end)
closeGroups()
for _, entry in ipairs(entries) do tell('ready', (idOf(entry))) end
recordEvents(events)
return #entries
