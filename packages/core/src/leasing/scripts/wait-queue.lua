-- wait-queue.lua - what every wait queue needs: the server's time, messages to waiters, and which of them are dead.
--
-- Defines readClock, newNotifier, someDead
--
-- All inputs are parameters. Exported: packages that lease join it to their scripts.

-- The server's time: epoch milliseconds, and epoch microseconds.
local function readClock()
  local time = redis.call('TIME')
  local seconds, micros = tonumber(time[1]), tonumber(time[2])
  return seconds * 1000 + math.floor(micros / 1000), seconds * 1000000 + micros
end

-- Messages to waiters. `listens(inbox)`: whether somebody is subscribed to it. `notify(inbox, message)`: the same, and keeps the
-- message for a listener. `flush()` publishes what was kept. `unreachable` counts the inboxes without a listener. `isShared()`:
-- whether this may be a node of a Cluster.
--
-- The server is asked for listeners before anything is decided, and PUBLISH comes after all writes of a script. So no message goes
-- out for a grant that is not stored: also the replicas of this server deliver it, to subscribers that this server cannot count.
--
-- Where subscribers may sit on another node (`shared` is 1; empty: to be found out) the count of listeners says nothing,
-- and every inbox counts as heard. Inboxes `-` and `+` cannot be notified; one that is `+` is being opened, and its waiters
-- send a heartbeat as soon as it is open.
local function newNotifier(shared)
  local self = { unreachable = 0 }
  local heard, messages = {}, {}
  function self.isShared()
    if shared == '' then
      local info = redis.pcall('INFO', 'cluster')
      shared = type(info) == 'string' and string.find(info, 'cluster_enabled:0', 1, true) and '0' or '1'
    end
    return shared == '1'
  end
  local function isHeard(inbox)
    if shared == '1' then return true end
    local listeners = redis.pcall('PUBSUB', 'NUMSUB', inbox)[2]
    return (type(listeners) == 'number' and listeners > 0) or self.isShared()
  end
  function self.listens(inbox)
    if inbox == '-' or inbox == '+' then return false end
    if heard[inbox] == nil then
      heard[inbox] = isHeard(inbox)
      if not heard[inbox] then self.unreachable = self.unreachable + 1 end
    end
    return heard[inbox]
  end
  function self.notify(inbox, message)
    if not self.listens(inbox) then return false end
    messages[#messages + 1] = { inbox, message }
    return true
  end
  function self.flush()
    for _, each in ipairs(messages) do
      redis.pcall('PUBLISH', each[1], each[2])
    end
  end
  return self
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
