-- index.lua - lists series of one metric as counted lately, and takes off those whose data is gone.
--
-- KEYS[1]  index  zset    series to when it was last counted (epoch ms)
-- ARGV[n]  values  string  keepMs, maxSeries, gone (how many), for each of them the series and the score with which it was
--                         found, then the series that were counted
--
-- Reply    how many were taken off because their data is gone
local index = KEYS[1]
local values = ARGV
local keepMs, maxSeries = values[1], values[2]
local counted = 4 + 2 * values[3]

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local gone, isCounted = {}, {}
for place = counted, #values do isCounted[values[place]] = true end
for place = 4, counted - 1, 2 do
  -- With another score it was counted since.
  local score = redis.call('ZSCORE', index, values[place])
  if score and tonumber(score) == tonumber(values[place + 1]) then
    gone[#gone + 1] = values[place]
  end
end
for place = counted, #values do
  redis.call('ZADD', index, string.format('%.0f', now), values[place])
end
-- Comes behind: it might empty the key, and while the slot moves to another node, a script fails at a key that is gone.
for _, one in ipairs(gone) do
  if not isCounted[one] then redis.call('ZREM', index, one) end
end
if values[counted] then
  redis.call('ZREMRANGEBYSCORE', index, '-inf', string.format('%.0f', now - keepMs))
  redis.call('ZREMRANGEBYRANK', index, 0, -1 - maxSeries)
  redis.call('PEXPIRE', index, keepMs)
end
return #gone
