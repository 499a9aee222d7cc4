-- index.lua - lists series of one metric as recently counted, and removes series whose data is gone.
--
-- KEYS[1]  index      zset     series to when it was last counted (epoch ms)
-- ARGV[1]  keepMs     integer  how long the list stays after the last count, milliseconds
-- ARGV[2]  maxSeries  integer  the maximum number of series
-- ARGV[n]  listed     string   `series foundAt` of each: its score when its data was found missing; empty: it was counted
--
-- Reply    how many were removed because their data is gone
local index = KEYS[1]
local keepMs = ARGV[1]
local maxSeries = ARGV[2]
local listed = { unpack(ARGV, 3) }

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local gone, counted, isCounted = {}, {}, {}
for at = 1, #listed, 2 do
  local series, foundAt = unpack(listed, at, at + 1)
  local score = foundAt ~= '' and redis.call('ZSCORE', index, series)
  if foundAt == '' then
    counted[#counted + 1], isCounted[series] = series, true
  -- With another score, the series has been counted since.
  elseif score and tonumber(score) == tonumber(foundAt) then
    gone[#gone + 1] = series
  end
end
for _, series in ipairs(counted) do
  redis.call('ZADD', index, string.format('%.0f', now), series)
end
-- This comes last: it may empty the key, and while the slot moves to another node, a script fails at a key that is gone.
for _, one in ipairs(gone) do
  if not isCounted[one] then redis.call('ZREM', index, one) end
end
if counted[1] then
  redis.call('ZREMRANGEBYSCORE', index, '-inf', string.format('%.0f', now - keepMs))
  redis.call('ZREMRANGEBYRANK', index, 0, -1 - maxSeries)
  redis.call('PEXPIRE', index, keepMs)
end
return #gone
