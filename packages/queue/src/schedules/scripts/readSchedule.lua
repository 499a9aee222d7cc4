-- readSchedule.lua - reads one schedule. Changes nothing.
--
-- KEYS[1]  schedules  hash    id to version, revision, runs left, and timing as JSON
-- KEYS[2]  templates  hash    id to header without its first word, and payload, of its jobs
-- KEYS[3]  upcoming   zset    id to the instant of its next run, ms; inf: it has ended
-- KEYS[4]  meta       hash    layout and counters
-- KEYS[5]  jobs       hash    id to header and payload
-- KEYS[6]  dead       zset    id to the instant of its death
-- ARGV[1]  id         string  of the schedule
--
-- Reply     {now, removed, schedule, template, at, busy}  server time, epoch ms, and how many schedules were ever removed, as text; its
--           fields and score, each empty if there is none; `busy` as in `due.lua`
local schedules = KEYS[1]
local templates = KEYS[2]
local upcoming = KEYS[3]
local meta = KEYS[4]
local jobs = KEYS[5]
local dead = KEYS[6]
local id = ARGV[1]

-- Libraries

local time = redis.call('TIME')
local field = redis.call('HGET', schedules, id) or ''
local isBusy = isPending(jobs, dead, id, lastOf(field))
return {
  string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)),
  redis.call('HGET', meta, 'schedulesRemoved') or '0',
  field,
  redis.call('HGET', templates, id) or '',
  redis.call('ZSCORE', upcoming, id) or '',
  isBusy and 'busy' or '',
}
