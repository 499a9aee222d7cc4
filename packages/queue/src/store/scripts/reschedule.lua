-- reschedule.lua - gives a job that is ready or delayed another due time.
--
-- KEYS[1]  jobs         hash    id to header and payload
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  delayed      zset    entry to the instant at which it is due, ms
-- KEYS[5]  wake         zset    markers that wake workers
-- KEYS[6]  dead         zset    id to the instant of its death
-- KEYS[7]  limits       hash    what keeps jobs from starting; `listened`
-- KEYS[8]  events       stream  recorded events
-- KEYS[9]  suspended    zset    ready jobs whose names are stopped, see `names.lua`
-- KEYS[10] grouped  zset    ready jobs that have a group, see `groups.lua`
-- KEYS[11] turns    zset    groups in the order of their turns
-- KEYS[12] held     zset    group and id of each job that has one of its group's places
-- KEYS[13] groups   hash    settings of groups
-- ARGV[1]  id           string  of the job
-- ARGV[2]  due          string  `delay=500` ms from now, or `due=1700000000000` an instant; one in the past means now
--
-- Reply     `ready` or `delayed`: the new state of the job; a ready job that is due now keeps its place. `none` there is no such job;
--           `dead` it is a dead letter; `elsewhere` it is active, or in no list of work: only a search of `leases` can tell. These three
--           changed nothing
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local wake = KEYS[5]
local dead = KEYS[6]
local limits = KEYS[7]
local events = KEYS[8]
local suspended = KEYS[9]
local grouped = KEYS[10]
local turns = KEYS[11]
local held = KEYS[12]
local groups = KEYS[13]
local id = ARGV[1]
local due = ARGV[2]

-- Libraries

failOnOtherType(wake)
joinGroups(true, grouped, turns, held, groups)
listen(limits)
local blob = redis.call('HGET', jobs, id)
if not blob then return 'none' end
if redis.call('ZSCORE', dead, id) then return 'dead' end
local entry = entryOfBlob(id, blob)
local place, former = placeOf(waiting, prioritised, delayed, suspended, id, entry, blob)
if not place then return 'elsewhere' end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local word, at = string.match(due, '^(%a+)=(.*)$')
at = word == 'delay' and now + at or tonumber(at)
at = math.min(at, behind - 1)
allowWrites(delayed)
if former and tonumber(former) >= behind then
  -- It still waits until the other jobs end.
  local wait = math.floor(former / behind) * behind
  redis.call('ZADD', delayed, string.format('%.0f', math.max(at, now) + wait), entry)
  return 'delayed'
end
if at > now then
  local later = expiringFrom(blob, at)
  if later then redis.call('HSET', jobs, id, later) end
  local earliest = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
  redis.call('ZADD', delayed, string.format('%.0f', at), entry)
  if not earliest or at < tonumber(earliest) then wakeTimers(wake) end
  if place ~= 'delayed' then
    leaveGroup(entry, place)
    turnGroups(wake)
    leave(place, waiting, prioritised, delayed, suspended, id, entry)
    closeGroups()
  end
  tell('delayed', id, nameOf(blob))
  recordEvents(events)
  return 'delayed'
end
if place == 'delayed' then
  makeReady(waiting, prioritised, enterGroups({ entry }, false), false)
  wakeWorker(wake)
  turnGroups(wake)
  leave(place, waiting, prioritised, delayed, suspended, id, entry)
  closeGroups()
  tell('ready', id, nameOf(blob))
  recordEvents(events)
end
return 'ready'
