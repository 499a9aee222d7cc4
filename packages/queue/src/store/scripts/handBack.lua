-- handBack.lua - returns jobs to the queue.
-- They go to the front of their priority, in their order. Jobs of names with limits go to the front of their name in `suspended`, and jobs of
-- groups to the front of their group.
--
-- KEYS[1]  leases       zset    take id and entry to the instant at which the lease ends, ms
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  wake         zset    markers that wake workers
-- KEYS[5]  limits       hash    what keeps jobs from starting
-- KEYS[6]  failures     hash    id to attempts, crashes, last error
-- KEYS[7]  events       stream  recorded events
-- KEYS[8]  jobs         hash    id to header and payload
-- KEYS[9]  suspended    zset    ready jobs whose names are stopped, see `names.lua`
-- KEYS[10] named        zset    name and member of `leases`, of active jobs whose names have a concurrency, see `names.lua`
-- KEYS[11] grouped  zset    ready jobs that have a group, see `groups.lua`
-- KEYS[12] turns    zset    groups in the order of their turns
-- KEYS[13] held     zset    group and id of each job that has one of its group's places
-- KEYS[14] groups   hash    settings of groups
-- ARGV[1]  members      string  of `leases`, one per line
-- ARGV[2]  after        string  entries that were handed back before and belong ahead of these, one per line, nearest first
-- ARGV[3]  limited      string  empty: the worker knows of no limits; `1` the jobs were taken under limits and did not start, so they do
--                               not count for the rate; else `0`
-- ARGV[4]  begun        string  ids of those that have started and could expire, one per line: they no longer expire
--
-- Reply     n  how many were returned; the leases of the others were no longer held
local leases = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local wake = KEYS[4]
local limits = KEYS[5]
local failures = KEYS[6]
local events = KEYS[7]
local jobs = KEYS[8]
local suspended = KEYS[9]
local named = KEYS[10]
local grouped = KEYS[11]
local turns = KEYS[12]
local held = KEYS[13]
local groups = KEYS[14]
local members = ARGV[1]
local after = ARGV[2]
local limited = ARGV[3]
local begun = ARGV[4]

-- Libraries

failOnOtherType(waiting, prioritised, wake)
joinGroups(true, grouped, turns, held, groups)
listen(limits)
if begun ~= '' then failOnOtherType(failures) end
if limited ~= '' then failOnOtherType(named) end
allowWrites(leases)
local entries, held, hasBegun = {}, {}, {}
for id in string.gmatch(begun, '[^\n]+') do hasBegun[id] = true end
for member in string.gmatch(members, '[^\n]+') do
  if not held[member] and redis.call('ZSCORE', leases, member) then
    held[member] = true
    held[#held + 1] = member
    entries[#held] = leasedEntry(member)
    local id = idOf(entries[#held])
    tell('ready', id)
    -- A record that ends with `fresh` is of a job that was passed on and had not started.
    local record = hasBegun[id] and (redis.call('HGET', failures, id) or 'fresh')
    if record and string.find(record, 'fresh$') then redis.call('HSET', failures, id, '0\t0\t') end
  end
end
-- The jobs from the front of a priority up to this job. False: it is not among the first 100.
local function frontTo(id, priority)
  if priority == 0 then return redis.call('LPOS', waiting, id, 'MAXLEN', 100) and { id } end
  local score = redis.call('ZSCORE', prioritised, id) or '-inf'
  local front = redis.call('ZRANGEBYSCORE', prioritised, string.format('%.0f', priority * band), score, 'LIMIT', 0, 100)
  return front[#front] == id and front
end
local leaving = {}
if limited ~= '' then
  local names = refund(limits, limited == '1' and #entries or 0)
  entries = returnSuspended(jobs, suspended, names, entries)
  leaving = namedOf(jobs, named, names, held)
end
-- For each priority the nearest of them that is still ready.
local pivots = {}
for entry in string.gmatch(after, '[^\n]+') do
  local id, priority = idOf(entry)
  pivots[priority] = pivots[priority] or frontTo(id, priority)
end
local others = entries
if next(pivots) then
  others = {}
  for i = #entries, 1, -1 do
    local id, priority = idOf(entries[i])
    local pivot = pivots[priority]
    if not pivot or groupOf(entries[i]) then table.insert(others, 1, entries[i])
    elseif priority == 0 then redis.call('LINSERT', waiting, 'AFTER', pivot[#pivot], id)
    else
      -- The pivot and the jobs ahead of it move forward by one. The job gets the pivot's former position.
      local position = redis.call('ZSCORE', prioritised, pivot[#pivot])
      for _, moved in ipairs(pivot) do redis.call('ZADD', prioritised, 'INCR', -1, moved) end
      redis.call('ZADD', prioritised, position, id)
    end
  end
end
makeReady(waiting, prioritised, enterGroups(others, true), true)
turnGroups(wake)
if #held > 0 then wakeWorker(wake) end
inBatches(held, function(...) redis.call('ZREM', leases, ...) end)
inBatches(leaving, function(...) redis.call('ZREM', named, ...) end)
closeGroups()
recordEvents(events)
return #held
