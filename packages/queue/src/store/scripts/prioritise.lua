-- prioritise.lua - gives a job that is ready or delayed another priority, after all other jobs of that priority.
--
-- KEYS[1]  jobs         hash     id to header and payload
-- KEYS[2]  waiting      list     ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset     ids of the other ready jobs
-- KEYS[4]  delayed      zset     entry to the instant at which it is due, ms
-- KEYS[5]  wake         zset     markers that wake workers
-- KEYS[6]  suspended    zset     ready jobs whose names are stopped, see `names.lua`
-- KEYS[7] grouped  zset    ready jobs that have a group, see `groups.lua`
-- KEYS[8] turns    zset    groups in the order of their turns
-- KEYS[9] held     zset    group and id of each job that has one of its group's places
-- KEYS[10] groups   hash    settings of groups
-- ARGV[1]  id           string   of the job
-- ARGV[2]  priority     integer  its priority from now on
--
-- Reply     1 if it is ready or delayed and has this priority now, 0 if it is active, dead, or unknown
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local wake = KEYS[5]
local suspended = KEYS[6]
local grouped = KEYS[7]
local turns = KEYS[8]
local held = KEYS[9]
local groups = KEYS[10]
local id = ARGV[1]
local priority = tonumber(ARGV[2])

-- Libraries

failOnOtherType(waiting, wake)
joinGroups(true, grouped, turns, held, groups)
local blob = redis.call('HGET', jobs, id)
if not blob then return 0 end
if not nameOf(blob) then return 0 end
local former = entryOfBlob(id, blob)
local place, due = placeOf(waiting, prioritised, delayed, suspended, id, former, blob)
if not place then return 0 end
allowWrites(delayed)
redis.call('HSET', jobs, id, withOption(blob, 'priority', priority ~= 0 and string.format('%d', priority)))
moveTo(entryOf(id, priority, (groupOf(former))), place, due, waiting, prioritised, delayed, suspended, wake, id, former)
return 1
