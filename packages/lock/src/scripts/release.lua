-- release.lua - releases the lock and hands it on; or leaves the queue.
--
-- KEYS[1]  lease    string   who holds it: `token|holder`
-- KEYS[2]  fence    string   `1:` and the last fencing token, `:` and the call that handed it on
-- KEYS[3]  queue    zset     token to ticket, in order of arrival
-- KEYS[4]  waiters  hash     token to `aliveUntil watched grantMs inbox holder`; `#` to the last ticket
-- ARGV[1]  owner    string   the caller, as the lease names it: `token|holder`
-- ARGV[2]  terms    string   `shared fencingToken op keepMs minHoldMs`: 1 on a Cluster, 0 on a single server, empty if not known yet; the token of
--                            the lease to release, empty if only an acquire must be undone, `*` by force; the
--                            same for all releases by one lease object, empty if no repeat must recognise its own work;
--                            how long an unused name's token is kept, empty for the week since its grant; for how
--                            long after its grant the lock stays taken, under the owner `|holder` without a token, empty for 0
--
-- Reply     1  released, now or by an earlier repeat of this call
--           2  left the queue
--           3  the lease is gone, and no caller has held the lock since
--           0  not held by this token, nor queued; nothing changed
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local lease = KEYS[1]
local fence = KEYS[2]
local queue = KEYS[3]
local waiters = KEYS[4]
local owner = ARGV[1]
local terms = ARGV[2]

local found = redis.call('GET', lease)
-- The common case: there are no waiters, and the last two terms are empty: they end with two blanks. The layout is ours, because the
-- lease is, and no other call writes the fence meanwhile.
local isPlain = found == owner and string.sub(terms, -2) == '  ' and not string.find(terms, '*', 1, true)
if isPlain and redis.call('EXISTS', queue) == 0 then
  redis.call('DEL', lease)
  return 1
end

-- Libraries

local shared, fencingToken, op, keepMs, minHoldMs = string.match(terms, '^(%d?) (%S*) (%S*) (%d*) (%d*)$')
local isForced = fencingToken == '*'
local token = ownerToken(owner)
local stored = redis.call('GET', fence)
if not nextFence(stored, 0) then return redis.error_reply(layoutError) end
if found == owner then
  local notifier = newNotifier(shared)
  local now, micros = readClock()
  local last = string.match(stored or '', '^1:(%d+)')
  -- How long the lock must stay taken: the fencing token is the instant of the grant, unless it is ahead of the clock.
  local ms = 0
  if minHoldMs ~= '' and last == fencingToken then
    ms = minHoldMs - math.floor(math.max(0, micros - last) / 1000)
  end
  if ms > 0 then
    local holder = string.match(owner, '|(.*)$')
    local keptFor = keepMs == '' and fenceMs or keptMs(stored, micros, keepMs + ms)
    reserve(lease, fence, queue, waiters, notifier, { ms = ms, holder = holder, fence = '1:' .. last .. ':' .. op, keptFor = keptFor }, now)
    notifier.flush()
    return 1
  end
  local winner = grantNext(lease, fence, queue, waiters, notifier, op, nil)
  if not winner and isForced then
    -- The former holder must not mistake the free lock for the result of its own release.
    redis.call('SET', fence, '1:' .. nextFence(stored, micros) .. ':' .. op, 'PX', fenceMs)
  elseif not winner and stored and keepMs ~= '' then
    redis.call('PEXPIRE', fence, keptMs(stored, micros, keepMs))
  end
  notifier.flush()
  return 1
end
local last, from = string.match(stored or '', '^%d+:(%d+):?(.*)$')
if op ~= '' and from == op then return 1 end
if isForced then return 0 end
local rank = redis.call('ZRANK', queue, token)
if rank then
  local notifier = newNotifier(shared)
  local msLeft = rank == 0 and redis.call('PTTL', lease) or -1
  -- The first waiter watches the holder's lease. From now on, the next waiter does.
  if msLeft ~= -1 then
    local now = readClock()
    notifyNext(queue, waiters, notifier, now + math.max(msLeft, 0), now, token)
  end
  redis.call('HDEL', waiters, token)
  redis.call('ZREM', queue, token)
  notifier.flush()
  return 2
end
if not found and last == fencingToken then return 3 end
return 0
