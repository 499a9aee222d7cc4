-- edit.lua - replaces the header and payload of a job that is not active.
-- If its priority changes, it goes after all other jobs of that priority.
--
-- KEYS[1]  jobs         hash    id to header and payload
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  delayed      zset    entry to the instant at which it is due, ms
-- KEYS[5]  wake         zset    markers that wake workers
-- KEYS[6]  dead         zset    id to the instant of its death
-- KEYS[7]  meta         hash    counters
-- KEYS[8]  suspended    zset    ready jobs whose names are stopped, see `names.lua`
-- KEYS[9] grouped  zset    ready jobs that have a group, see `groups.lua`
-- KEYS[10] turns    zset    groups in the order of their turns
-- KEYS[11] held     zset    group and id of each job that has one of its group's places
-- KEYS[12] groups   hash    settings of groups
-- ARGV[1]  id           string  of the job
-- ARGV[2]  digest       string  SHA-1 of the header and payload that the caller has read, hexadecimal
-- ARGV[3]  blob         string  its header and payload from now on
--
-- Reply     `edited` it has them now; `none` there is no such job; `changed` they differ from what the caller has read; `elsewhere` it
--           is active, or in no list of work: only a search of `leases` can tell. Only `edited` may have changed something
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local wake = KEYS[5]
local dead = KEYS[6]
local meta = KEYS[7]
local suspended = KEYS[8]
local grouped = KEYS[9]
local turns = KEYS[10]
local held = KEYS[11]
local groups = KEYS[12]
local id = ARGV[1]
local digest = ARGV[2]
local blob = ARGV[3]

-- Libraries

failOnOtherType(wake, meta)
joinGroups(true, grouped, turns, held, groups)
local stored = redis.call('HGET', jobs, id)
if not stored then return 'none' end
-- An earlier arrival of this call.
if stored == blob then return 'edited' end
if redis.sha1hex(stored) ~= digest then return 'changed' end
if redis.call('ZSCORE', dead, id) then
  redis.call('HINCRBY', meta, 'deadBytes', #blob - #stored)
  redis.call('HSET', jobs, id, blob)
  return 'edited'
end
local former, entry = entryOfBlob(id, stored), entryOfBlob(id, blob)
local place, due = placeOf(waiting, prioritised, delayed, suspended, id, former, stored)
if not place then return 'elsewhere' end
redis.call('HSET', jobs, id, blob)
if entry ~= former then moveTo(entry, place, due, waiting, prioritised, delayed, suspended, wake, id, former) end
return 'edited'
