-- wait-queue.lua - functions of every wait queue: the server's time, messages to waiters, and dead waiters.
--
-- Defines readClock, allowLeaseWrites, failOnOtherType, newNotifier, someDead
--
-- All inputs are parameters. Exported: packages that lease join it to their scripts.

-- The server's time: epoch milliseconds, and epoch microseconds.
local function readClock()
  local time = redis.call('TIME')
  local seconds, micros = tonumber(time[1]), tonumber(time[2])
  return seconds * 1000 + math.floor(micros / 1000), seconds * 1000000 + micros
end

-- A write without effect on a sorted set, which may have an empty member. At maxmemory the writes after a write that frees memory are
-- allowed.
local function allowLeaseWrites(key) redis.call('ZREM', key, '|') end

-- Fails on a key with data of another type, before the first write of a script: so no half of a change is left behind.
local function failOnOtherType(keys)
  if keys.zset then redis.call('ZCARD', keys.zset) end
  if keys.hash then redis.call('HGET', keys.hash, '#') end
end

-- Messages to waiters. `listens(inbox)`: whether it has a subscriber. `notify(inbox, message)`: the same, and keeps the message
-- for a subscriber. `flush()` publishes the kept messages. `unreachable` counts the inboxes without a listener. `isShared()`:
-- whether this may be a node of a Cluster.
--
-- A script counts the subscribers before it decides, and publishes after all its writes. So no message is sent for a grant that
-- is not stored. Replicas of this server deliver messages, too, to subscribers that this server cannot count.
--
-- Where subscribers may be on another node (`shared` is 1; empty: it is checked here) the count is meaningless, and every inbox
-- counts as subscribed. Inboxes `-` and `+` cannot be notified; one that is `+` is being opened, and its waiters send a
-- heartbeat as soon as it is open.
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
-- Each record starts with the instant until which its waiter counts as alive.
local function someDead(waiters, now)
  local dead = {}
  local sample = redis.call('HRANDFIELD', waiters, 50, 'WITHVALUES')
  for i = 1, #sample, 2 do
    local aliveUntil = string.match(sample[i + 1], '^(%d+) ')
    if aliveUntil and tonumber(aliveUntil) <= now then dead[#dead + 1] = sample[i] end
  end
  return dead
end
