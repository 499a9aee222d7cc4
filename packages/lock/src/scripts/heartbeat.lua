-- heartbeat.lua - keeps waiters alive, and replies with the state of each.
--
-- KEYS[1]  lease    string   who holds it: `token|holder`
-- KEYS[2]  fence    string   `1:` and the last fencing token, `:` and the call that handed it on
-- KEYS[3]  queue    zset     token to ticket, in order of arrival
-- KEYS[4]  waiters  hash     token to `aliveUntil watched grantMs inbox holder`; `#` to the last ticket
-- ARGV[1]  shared   string   1 on a Cluster, 0 on a single server; empty: not known yet
-- ARGV[2]  aliveMs  integer  how long a waiter counts as alive without a heartbeat, milliseconds
-- ARGV[3]  inbox    string   the channel that notifies them from now on, `-` for none, `+` for one that is being opened
-- ARGV[n]  tokens   string   the waiters of this heartbeat, 500 at most
--
-- Reply     {now, msLeft, owner, fencingToken, state, …}, of the lease as it is now (msLeft -2: free), and a state for
--           each waiter:
--            0, 1, …  its position in the queue
--           -1        unknown here: never queued, or the server lost it, or its grant ran out
--           -2        it holds the lock
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local lease = KEYS[1]
local fence = KEYS[2]
local queue = KEYS[3]
local waiters = KEYS[4]
local shared = ARGV[1]
local aliveMs = tonumber(ARGV[2])
local inbox = ARGV[3]
local tokens = { unpack(ARGV, 4) }

if not nextFence(redis.call('GET', fence), 0) then return redis.error_reply(layoutError) end
local now = readClock()
local aliveUntil = string.format('%.0f', now + aliveMs)
local owner = redis.call('GET', lease)
local msLeft = redis.call('PTTL', lease)
local records = redis.call('HMGET', waiters, unpack(tokens))
failOnOtherType({ zset = queue })
local function sign(winner)
  local signed = {}
  local living = aliveUntil .. ' ' .. watchedEnd(now, msLeft)
  for i, token in ipairs(tokens) do
    local grantMs, holder = string.match(records[i] or '', '^%d+ %d+ (%d+) %S+ (.*)$')
    if grantMs and token ~= winner then
      signed[#signed + 1] = token
      signed[#signed + 1] = table.concat({ living, grantMs, inbox, holder }, ' ')
    end
  end
  if #signed == 0 then return end
  redis.call('PEXPIRE', queue, aliveMs + 1000)
  redis.call('PEXPIRE', waiters, aliveMs + 1000)
  redis.call('HSET', waiters, unpack(signed))
end
sign(nil)
local notifier = newNotifier(shared)
if not owner then
  local present = {}
  for i, token in ipairs(tokens) do
    if records[i] then present[token] = true end
  end
  local winner = grantNext(lease, fence, queue, waiters, notifier, '', present)
  owner = redis.call('GET', lease)
  msLeft = redis.call('PTTL', lease)
  -- The waiters of this call get the new lease by its reply.
  if winner then sign(winner) end
end
local winner = ownerToken(owner)
local stored = redis.call('GET', fence)
-- The holder's fencing token may have been evicted, or lost with the data.
if winner and not stored then
  local _, micros = readClock()
  stored = '1:' .. nextFence(nil, micros)
  redis.call('SET', fence, stored, 'PX', fenceMs)
end
local fencingToken = string.match(stored or '', '^%d+:(%d+)') or ''
local reply = { now, msLeft, owner or '', fencingToken }
for i, token in ipairs(tokens) do
  reply[i + 4] = token == winner and -2 or redis.call('ZRANK', queue, token) or -1
end
notifier.flush()
return reply
