-- clock.lua - the server's time.
--
-- Defines readClock, readMicros
-- Numbers that begin with it are higher than those of anything that was deleted before.
local function readMicros()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function readClock()
  return math.floor(readMicros() / 1000)
end
