-- dropSchedule.lua - removes a schedule if it is still the one that the caller has read.
--
-- KEYS[1]  schedules  hash    id to version, revision, runs left, and timing as JSON
-- KEYS[2]  templates  hash    id to header without its first word, and payload, of its jobs
-- KEYS[3]  upcoming   zset    id to the instant of its next run, ms; inf: it has ended
-- KEYS[4]  meta       hash    layout and counters
-- ARGV[1]  id         string  of the schedule
-- ARGV[2]  revision   string  of the schedule that was read
--
-- Reply     1  it is gone, by this call or another
--           0  it was changed meanwhile; nothing was changed
local schedules = KEYS[1]
local templates = KEYS[2]
local upcoming = KEYS[3]
local meta = KEYS[4]
local id = ARGV[1]
local revision = ARGV[2]

local stored = redis.call('HGET', schedules, id)
failOnOtherType(templates, meta)
if not stored then return 1 end
if string.match(stored, '^%d+\t([^\t]+)\t') ~= revision then return 0 end
allowWrites(upcoming)
-- A late copy of the call that added the schedule finds another count.
redis.call('HINCRBY', meta, 'schedulesRemoved', 1)
redis.call('ZREM', upcoming, id)
redis.call('HDEL', templates, id)
redis.call('HDEL', schedules, id)
return 1
