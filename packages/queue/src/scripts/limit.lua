-- limit.lua - changes the limits of a queue.
--
-- KEYS[1]  limits  hash    `paused`: the instant of the pause, epoch ms
-- KEYS[2]  wake    zset    markers that wake workers
-- ARGV[1]  paused  string  `1` the queue is paused, `0` it goes on, empty: neither
--
-- Reply     1  the limits are as they should be
local limits = KEYS[1]
local wake = KEYS[2]
local paused = ARGV[1]

-- Libraries

redis.call('HLEN', limits)
redis.call('ZCARD', wake)
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
if paused == '1' and redis.call('HEXISTS', limits, 'paused') == 0 then redis.call('HSET', limits, 'paused', now) end
-- The workers look what they may do now.
wakeWorker(wake)
if paused == '0' then redis.call('HDEL', limits, 'paused') end
return 1
