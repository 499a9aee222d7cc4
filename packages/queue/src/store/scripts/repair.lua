-- repair.lua - makes jobs ready that are in no list of work.
-- They go to the end of the queue, with their attempts and crashes. A job whose id looks like the entry of another job stays: no list can
-- name it.
--
-- KEYS[1]  jobs         hash    id to header and payload
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  delayed      zset    entry to the instant at which it is due, ms
-- KEYS[5]  leases       zset    take id and entry to the instant at which the lease ends, ms
-- KEYS[6]  wake         zset    markers that wake workers
-- KEYS[7]  dead         zset    id to the instant of its death
-- KEYS[8]  limits       hash    what keeps jobs from starting; `listened`
-- KEYS[9]  events       stream  recorded events
-- KEYS[10] suspended    zset    ready jobs whose names are stopped, see `names.lua`
-- KEYS[11] grouped  zset    ready jobs that have a group, see `groups.lua`
-- KEYS[12] turns    zset    groups in the order of their turns
-- KEYS[13] held     zset    group and id of each job that has one of its group's places
-- KEYS[14] groups   hash    settings of groups
-- ARGV[1]  verb         string  `repair`, or `show` to change nothing
-- ARGV[2]  ids          string  one per line, at most 100
--
-- Reply     ids  of the jobs that were in no list, one per line
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local leases = KEYS[5]
local wake = KEYS[6]
local dead = KEYS[7]
local limits = KEYS[8]
local events = KEYS[9]
local suspended = KEYS[10]
local grouped = KEYS[11]
local turns = KEYS[12]
local held = KEYS[13]
local groups = KEYS[14]
local verb = ARGV[1]
local ids = ARGV[2]

-- Libraries

failOnOtherType(wake)
joinGroups(true, grouped, turns, held, groups)
listen(limits)
local wanted, missing = {}, {}
for id in string.gmatch(ids, '[^\n]+') do
  local blob = not missing[id] and redis.call('HGET', jobs, id)
  if blob then
    local entry = entryOfBlob(id, blob)
    local isElsewhere = redis.call('ZSCORE', dead, id)
      or redis.call('ZSCORE', prioritised, id)
      or redis.call('ZSCORE', delayed, entry)
    if not isElsewhere then
      wanted[#wanted + 1] = { entry = entry, id = id }
      missing[entry] = true
    end
  end
end
-- One pass over each key, whatever the number of ids.
for start = 0, redis.call('ZCARD', leases) - 1, 1000 do
  for _, member in ipairs(redis.call('ZRANGE', leases, start, start + 999)) do
    missing[leasedEntry(member)] = nil
  end
end
for start = 0, redis.call('LLEN', waiting) - 1, 1000 do
  for _, id in ipairs(redis.call('LRANGE', waiting, start, start + 999)) do
    missing[id] = nil
  end
end
for _, key in ipairs({ suspended, grouped }) do
  local cursor = '0'
  repeat
    local page = redis.call('ZSCAN', key, cursor, 'COUNT', 1000)
    for i = 1, #page[2], 2 do missing[placedEntry(page[2][i])] = nil end
    cursor = page[1]
  until cursor == '0'
end
local lost, names = {}, {}
for _, job in ipairs(wanted) do
  if missing[job.entry] then
    missing[job.entry] = nil
    names[#names + 1] = job.id
    if idOf(job.entry) == job.id then lost[#lost + 1] = job.entry end
  end
end
if verb == 'repair' and #lost > 0 then
  makeReady(waiting, prioritised, enterGroups(lost, false), false)
  wakeWorker(wake)
  turnGroups(wake)
  closeGroups()
  for _, entry in ipairs(lost) do tell('ready', (idOf(entry))) end
  recordEvents(events)
end
return table.concat(names, '\n')
