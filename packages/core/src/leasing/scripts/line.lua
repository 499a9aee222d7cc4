-- line.lua - what every line of waiters needs: the server's time, and messages to those who wait.
--
-- Defines readClock, newTeller
--
-- All inputs are parameters.

-- The server's time: epoch milliseconds, and epoch microseconds.
local function readClock()
  local time = redis.call('TIME')
  local seconds, micros = tonumber(time[1]), tonumber(time[2])
  return seconds * 1000 + math.floor(micros / 1000), seconds * 1000000 + micros
end

-- Two functions: one publishes to an inbox and says whether the message was heard; the other counts the deaf ones met.
--
-- Where subscribers may sit on another node (`shared` is 1; empty: to be found out) the count of receivers says nothing,
-- and every message counts as heard. Inbox `-` cannot be told. Waiters of one process share an inbox, so a dead process
-- costs one PUBLISH.
local function newTeller(shared)
  local deaf, deafCount = {}, 0
  local function tell(inbox, message)
    if inbox == '-' or deaf[inbox] then return false end
    local receivers = redis.pcall('PUBLISH', inbox, message)
    if type(receivers) == 'number' then
      if receivers > 0 then return true end
      if shared == '' then
        local info = redis.pcall('INFO', 'cluster')
        shared = type(info) == 'string' and string.find(info, 'cluster_enabled:0', 1, true) and '0' or '1'
      end
      if shared == '1' then return true end
    end
    deaf[inbox] = true
    deafCount = deafCount + 1
    return false
  end
  return tell, function()
    return deafCount
  end
end
