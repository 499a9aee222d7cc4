-- acquire.lua - takes the lock if it is free and there is no waiter; else queues, on request.
--
-- KEYS[1]  lease    string   who holds it: `token|holder`
-- KEYS[2]  fence    string   `1:` and the last fencing token, `:` and the call that handed it on
-- KEYS[3]  queue    zset     token to ticket, in order of arrival
-- KEYS[4]  waiters  hash     token to `aliveUntil watched grantMs inbox holder`; `#` to the last ticket
-- ARGV[1]  owner    string   the caller, as the lease names it: `token|holder`, a token of this acquire alone
-- ARGV[2]  terms    string   `leaseMs notAfter shared grantMs aliveMs maxWaiters inbox`, one text because each operand costs time:
--                            time to live of the lease, ms; server epoch ms after which the caller has given up, 0
--                            for none; and for a waiter: 1 on a Cluster, 0 on a single server, empty if not known
--                            yet; first time to live if it is granted later; how long a waiter counts as alive without
--                            a heartbeat; how many may queue; channel to be notified on, `-` for none, `+` for one that is being
--                            opened, empty: do not queue
--
-- Reply     fencingToken                     granted just now: a new lease, at that instant in microseconds
--           {1, now, msLeft, fencingToken}     granted: a token that holds it already, or one ahead of the clock
--           {2, now, msLeft, owner, position}  queued, at a position from 0; msLeft of the holder's lease
--           {0, now, msLeft, owner}            held by another, and not queued
--           {3, now, msLeft, owner}            held by another, and too many wait
--           {4, now}                           too late: notAfter has passed
--           error KIT_LAYOUT                   written by a newer version, or damaged; nothing changed
local lease = KEYS[1]
local fence = KEYS[2]
local queue = KEYS[3]
local waiters = KEYS[4]
local owner = ARGV[1]
local terms = ARGV[2]

local leaseMs, notAfter, waiting = string.match(terms, '^(%d+) (%d+) (.*)$')
local time = redis.call('TIME')
local now = math.floor(time[1] * 1000 + time[2] / 1000)
if notAfter ~= '0' and now > tonumber(notAfter) then return { 4, now } end

if redis.call('EXISTS', lease, queue) == 0 then
  -- The common case: the lock is free and the clock is ahead of the last token. The seven days are the fenceMs of fence.lua.
  local instant = time[1] .. string.format('%06d', time[2])
  local last = redis.call('GET', fence)
  local previous = last and string.match(last .. ':', '^1:(%d+):')
  if not last or (previous and tonumber(previous) < tonumber(instant)) then
    redis.call('SET', fence, '1:' .. instant, 'PX', 604800000)
    redis.call('SET', lease, owner, 'PX', leaseMs)
    return instant
  end
end

-- Libraries

local last = redis.call('GET', fence)
local fencingToken = nextFence(last, time[1] * 1000000 + time[2])
if not fencingToken then return redis.error_reply(layoutError) end
local token, holder = string.match(owner, '^([^|]*)|(.*)$')
local shared, grantMs, aliveMs, maxWaiters, inbox = string.match(waiting, '^(%d?) (%d+) (%d+) (%d+) (%S*)$')
local found = redis.call('GET', lease)
local position = redis.call('ZRANK', queue, token)
local notifier = newNotifier(shared)
if not found then
  -- The holder's lease ended and there are waiters, which come first. If none of them can be notified, this call is granted.
  if not grantNext(lease, fence, queue, waiters, notifier, '', { [token] = true }) then
    if position then
      redis.call('ZREM', queue, token)
      redis.call('HDEL', waiters, token)
    end
    redis.call('SET', fence, '1:' .. fencingToken, 'PX', fenceMs)
    redis.call('SET', lease, owner, 'PX', leaseMs)
    return { 1, now, tonumber(leaseMs), fencingToken }
  end
  found = redis.call('GET', lease)
  last = redis.call('GET', fence)
end
local msLeft = redis.call('PTTL', lease)
local function answer(code, ...)
  notifier.flush()
  return { code, now, msLeft, ... }
end
if found == owner then
  -- The fencing token may have been evicted, or lost with the data.
  if not last then
    last = '1:' .. fencingToken
    redis.call('SET', fence, last, 'PX', fenceMs)
  end
  return answer(1, (string.match(last, '^%d+:(%d+)')))
end
if inbox == '' then return answer(0, found) end
if not position then
  position = redis.call('ZCARD', queue)
  local dead = {}
  if position >= tonumber(maxWaiters) then
    for _, each in ipairs(someDead(waiters, now)) do
      if redis.call('ZSCORE', queue, each) then dead[#dead + 1] = each end
    end
    position = position - #dead
  end
  local isFull = position >= tonumber(maxWaiters)
  -- Keep this order: if all waiters in the queue were dead, dropping them first would remove the queue and its expiry.
  if not isFull then redis.call('ZADD', queue, redis.call('HINCRBY', waiters, '#', 1), token) end
  if #dead > 0 then
    redis.call('ZREM', queue, unpack(dead))
    redis.call('HDEL', waiters, unpack(dead))
  end
  if isFull then return answer(3, found) end
end
-- Also if the caller is already in the queue: this reply may have another end of the lease than the first reply.
local aliveUntil = string.format('%.0f', now + tonumber(aliveMs))
redis.call('HSET', waiters, token, table.concat({ aliveUntil, watchedEnd(now, msLeft), grantMs, inbox, holder }, ' '))
redis.call('PEXPIRE', queue, tonumber(aliveMs) + 1000)
redis.call('PEXPIRE', waiters, tonumber(aliveMs) + 1000)
return answer(2, found, position)
