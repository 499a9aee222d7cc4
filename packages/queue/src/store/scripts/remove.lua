-- remove.lua - deletes a job that is ready or delayed.
--
-- KEYS[1]  jobs         hash    id to header and payload
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  delayed      zset    entry to the instant at which it is due, ms
-- KEYS[5]  failures     hash    id to attempts, crashes, last error
-- KEYS[6]  dead         zset    id to the instant of its death
-- KEYS[7]  wake         zset    markers that wake workers
-- KEYS[8]  limits       hash    what keeps jobs from starting; `listened`
-- KEYS[9]  events       stream  recorded events
-- KEYS[10] suspended    zset    ready jobs whose names are stopped, see `names.lua`
-- KEYS[11] meta         hash    counters
-- KEYS[12] families     hash    the open and ended children of each parent, see `flow.lua`
-- KEYS[13] grouped  zset    ready jobs that have a group, see `groups.lua`
-- KEYS[14] turns    zset    groups in the order of their turns
-- KEYS[15] held     zset    group and id of each job that has one of its group's places
-- KEYS[16] groups   hash    settings of groups
-- ARGV[1]  id           string  of the job
--
-- Reply     `removed`; `none` there is no such job; `dead` it is a dead letter; `elsewhere` it is active, or in no list of work: only a
--           search of `leases` can tell. Only `removed` changed something
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local failures = KEYS[5]
local dead = KEYS[6]
local wake = KEYS[7]
local limits = KEYS[8]
local events = KEYS[9]
local suspended = KEYS[10]
local meta = KEYS[11]
local families = KEYS[12]
local grouped = KEYS[13]
local turns = KEYS[14]
local held = KEYS[15]
local groups = KEYS[16]
local id = ARGV[1]

-- Libraries

failOnOtherType(failures, wake, meta, families)
joinGroups(true, grouped, turns, held, groups)
listen(limits)
local blob = redis.call('HGET', jobs, id)
if not blob then return 'none' end
if redis.call('ZSCORE', dead, id) then return 'dead' end
local entry = entryOfBlob(id, blob)
local place = placeOf(waiting, prioritised, delayed, suspended, id, entry, blob)
if not place then return 'elsewhere' end
allowWrites(delayed)
releaseSuccessor(jobs, delayed, wake, id)
settle(jobs, delayed, wake, failures, dead, meta, families, id, 'removed')
leaveGroup(entry, place)
turnGroups(wake)
leave(place, waiting, prioritised, delayed, suspended, id, entry)
redis.call('HDEL', failures, id)
redis.call('HDEL', jobs, id)
closeFamilies(delayed, families)
closeGroups()
tell('removed', id, nameOf(blob))
recordEvents(events)
return 'removed'
