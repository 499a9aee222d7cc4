-- listen.lua - lets events be recorded for a time.
-- The stream expires when the recording ends, so what was recorded can be read as long as it goes on.
--
-- KEYS[1]  limits    hash     what keeps jobs from beginning; `listened`
-- KEYS[2]  events    stream   what happened, for those who listen
-- ARGV[1]  recordMs  integer  how long from now on, unless it is longer already
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
