-- wait-queue.lua - what every wait queue needs: the server's time, messages to waiters, and which of them are dead.
--
-- Defines readClock, newNotifier, someDead
--
-- All inputs are parameters.

-- The server's time: epoch milliseconds, and epoch microseconds.
local function readClock()
  local time = redis.call('TIME')
  local seconds, micros = tonumber(time[1]), tonumber(time[2])
  return seconds * 1000 + math.floor(micros / 1000), seconds * 1000000 + micros
end

-- Two functions: one publishes to an inbox and says whether anybody received it; the other counts the inboxes without a listener.
--
-- Where subscribers may sit on another node (`shared` is 1; empty: to be found out) the count of receivers says nothing,
-- and every message counts as received. Inboxes `-` and `+` cannot be notified; one that is `+` is being opened, and its waiters
-- send a heartbeat as soon as it is open. Waiters of one process share an inbox, so a dead process costs one PUBLISH.
local function newNotifier(shared)
  local unreachable, unreachableCount = {}, 0
  local function notify(inbox, message)
    if inbox == '-' or inbox == '+' or unreachable[inbox] then return false end
    local receivers = redis.pcall('PUBLISH', inbox, message)
    if type(receivers) == 'number' then
      if receivers > 0 then return true end
      if shared == '' then
        local info = redis.pcall('INFO', 'cluster')
        shared = type(info) == 'string' and string.find(info, 'cluster_enabled:0', 1, true) and '0' or '1'
      end
      if shared == '1' then return true end
    end
    unreachable[inbox] = true
    unreachableCount = unreachableCount + 1
    return false
  end
  return notify, function()
    return unreachableCount
  end
end

-- Dead waiters, from a sample of fifty: so a long queue costs no more than a short one.
-- Each record begins with the instant until which its waiter counts as alive.
local function someDead(waiters, now)
  local dead = {}
  local sample = redis.call('HRANDFIELD', waiters, 50, 'WITHVALUES')
  for i = 1, #sample, 2 do
    local aliveUntil = string.match(sample[i + 1], '^(%d+) ')
    if aliveUntil and tonumber(aliveUntil) <= now then dead[#dead + 1] = sample[i] end
  end
  return dead
end
