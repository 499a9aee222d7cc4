-- clock.lua - the server's time.
--
-- Defines readClock, readMicros, nextFence
-- Numbers that start at this time are higher than all numbers of a deleted job or channel.
local function readMicros()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function readClock()
  return math.floor(readMicros() / 1000)
end

--- A fence, as text: higher than the last one. The time in it makes it differ from any fence that a failover lost: two processes must never have the same.
local function nextFence(record)
  local last = tonumber(redis.call('HGET', record, 'fence') or '0')
  local fence = string.format('%.0f', math.max(last + 1, readMicros()))
  redis.call('HSET', record, 'fence', fence)
  return fence
end
