-- clock.lua - the server's time.
--
-- Defines readClock
local function readClock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
