-- index.lua - lists series of one metric as counted lately, and takes off those whose data is gone.
--
-- KEYS[1]  index  zset    series to when it was last counted (epoch ms)
-- ARGV[n]  terms  string  keepMs, maxSeries, gone (how many), for each of them the series and the score with which it was
--                         found, then the series that were counted
--
-- Reply    how many were taken off because their data is gone
local index = KEYS[1]
local terms = ARGV
local keepMs, maxSeries = terms[1], terms[2]
local counted = 4 + 2 * terms[3]

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local removed = 0
for place = 4, counted - 1, 2 do
  -- Another score: it was counted since.
  local score = redis.call('ZSCORE', index, terms[place])
  if score and tonumber(score) == tonumber(terms[place + 1]) then
    removed = removed + redis.call('ZREM', index, terms[place])
  end
end
for place = counted, #terms do
  redis.call('ZADD', index, string.format('%.0f', now), terms[place])
end
if terms[counted] then
  redis.call('ZREMRANGEBYSCORE', index, '-inf', string.format('%.0f', now - keepMs))
  redis.call('ZREMRANGEBYRANK', index, 0, -1 - maxSeries)
  redis.call('PEXPIRE', index, keepMs)
end
return removed
