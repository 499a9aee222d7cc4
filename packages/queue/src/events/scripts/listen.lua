-- listen.lua - has events recorded for a time.
-- The stream expires when the recording ends. Until then, readers can read all of it.
--
-- KEYS[1]  limits    hash     what keeps jobs from starting; `listened`
-- KEYS[2]  events    stream   recorded events
-- ARGV[1]  recordMs  integer  how long from now, unless a longer time is already set
--
-- Reply     id  of the last entry
local limits = KEYS[1]
local events = KEYS[2]
local recordMs = tonumber(ARGV[1])

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local listened = tonumber(redis.call('HGET', limits, 'listened') or 0)
local recorded = redis.call('XLEN', events)
redis.call('HSET', limits, 'listened', string.format('%.0f', math.max(listened, now + recordMs)))
-- Until now nothing was recorded.
if recorded == 0 or listened == 0 then redis.call('XADD', events, '*', 'e', 'began') end
redis.call('PEXPIREAT', events, string.format('%.0f', math.max(listened, now + recordMs)))
return redis.call('XREVRANGE', events, '+', '-', 'COUNT', 1)[1][1]
