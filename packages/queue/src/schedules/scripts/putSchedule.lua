-- putSchedule.lua - adds or replaces a schedule, if it has not changed since the caller read it.
--
-- KEYS[1]  schedules  hash    id to version, revision, runs left, and timing as JSON
-- KEYS[2]  templates  hash    id to header without its first word, and payload, of its jobs
-- KEYS[3]  upcoming   zset    id to the instant of its next run, ms; inf: it has ended
-- KEYS[4]  meta       hash    layout and counters
-- ARGV[1]  id         string  of the schedule
-- ARGV[2]  revision   string  of the schedule that was read; empty: there was none
-- ARGV[3]  at         string  its score as it was read; empty: there was none
-- ARGV[4]  removed    string  how many schedules had been removed when it was read
-- ARGV[5]  schedule   string  the new field, with a new revision
-- ARGV[6]  template   string  the new template
-- ARGV[7]  next       string  the new score
--
-- Reply     1  it is stored, by this call or by an earlier arrival of it
--           0  it was changed meanwhile, has fired, or a schedule was removed; nothing was changed
local schedules = KEYS[1]
local templates = KEYS[2]
local upcoming = KEYS[3]
local meta = KEYS[4]
local id = ARGV[1]
local revision = ARGV[2]
local at = ARGV[3]
local removed = ARGV[4]
local schedule = ARGV[5]
local template = ARGV[6]
local next = ARGV[7]

local stored = redis.call('HGET', schedules, id)
local score = redis.call('ZSCORE', upcoming, id) or ''
local count = redis.call('HGET', meta, 'schedulesRemoved') or '0'
failOnOtherType(templates)
local function revisionOf(field)
  return string.match(field, '^%d+\t([^\t]+)\t')
end
if stored then
  local own = revisionOf(stored)
  if own == revisionOf(schedule) then return 1 end
  if own ~= revision or score ~= at then return 0 end
elseif revision ~= '' or count ~= removed then
  return 0
end
redis.call('HSET', templates, id, template)
redis.call('HSET', schedules, id, schedule)
redis.call('ZADD', upcoming, next, id)
return 1
