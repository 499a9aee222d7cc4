-- acquire.lua - takes the lock for reading or for writing if it can be shared and there is no waiter; else queues, on request.
--
-- KEYS[1]  leases   zset     record `mode|token|holder` to the end of its lease, in epoch milliseconds; mode `r` or `w`
-- KEYS[2]  fence    string   `1:` and the last fencing token; 0: none yet
-- KEYS[3]  queue    zset     record to ticket, in order of arrival
-- KEYS[4]  waiters  hash     record to `aliveUntil watched grantMs inbox asked`; `#` to the last ticket
-- ARGV[1]  record   string   the caller: `mode|token|holder`, a token of this acquire alone
-- ARGV[2]  terms    string   `leaseMs notAfter shared grantMs aliveMs maxWaiters inbox`, one text because each operand costs time:
--                            time to live of the lease, ms; server epoch ms after which the caller has given up, 0
--                            for none; and for a waiter: 1 on a Cluster, 0 on a single server, empty if not known
--                            yet; first time to live if it is granted later; how long a waiter counts as alive without
--                            a heartbeat; how many may queue; channel to be notified on, `-` for none, `+` for one that is being
--                            opened, empty: do not queue
--
-- Reply     micros                             granted just now for reading: a new lease, at that instant
--           {micros}                           granted just now for writing; the instant is also the fencing token
--           {1, now, msLeft, fencingToken}     granted: a token that has a lease already, or after others; the fencing token is
--                                              empty for a reader
--           {2, now, msLeft, owner, position, lookMs}  queued, at a position from 0; msLeft to the latest end of the leases (-2:
--                                              there is none), and the record that it belongs to; lookMs to the first heartbeat,
--                                              the same or sooner
--           {0, now, msLeft, owner}            not free, and not queued
--           {3, now, msLeft, owner}            not free, and too many wait
--           {4, now}                           too late: notAfter has passed
--           error KIT_LAYOUT                   written by a newer version, or damaged; nothing changed
local leases = KEYS[1]
local fence = KEYS[2]
local queue = KEYS[3]
local waiters = KEYS[4]
local record = ARGV[1]
local terms = ARGV[2]

local leaseMs, notAfter, waiting = string.match(terms, '^(%d+) (%d+) (.*)$')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if notAfter ~= '0' and now > tonumber(notAfter) then return { 4, now } end

if redis.call('EXISTS', queue) == 0 then
  -- The common case: there is no waiter, and the leases permit it. The hundred is mostPurged and the seven days are fenceMs of the
  -- libraries.
  local last, lastEnd = unpack(redis.call('ZRANGE', leases, -1, -1, 'WITHSCORES'))
  local isWriter = string.sub(record, 1, 1) == 'w'
  local isFree = not last or tonumber(lastEnd) <= now
  if isFree or (not isWriter and string.sub(last, 1, 1) == 'r') then
    local instant = time[1] .. string.format('%06d', time[2])
    local stored = redis.call('GET', fence)
    local previous = stored and string.match(stored, '^1:(%d+)$')
    if not stored or (previous and (not isWriter or tonumber(previous) < tonumber(instant))) then
      if isWriter or not stored then redis.call('SET', fence, '1:' .. (isWriter and instant or '0'), 'PX', 604800000) end
      redis.call('ZADD', leases, string.format('%.0f', now + leaseMs), record)
      if not last or now + leaseMs > tonumber(lastEnd) then redis.call('PEXPIRE', leases, leaseMs + 1000) end
      local dead = last and redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 100) or {}
      if #dead > 0 then redis.call('ZREM', leases, unpack(dead)) end
      return isWriter and { instant } or instant
    end
  end
end

-- Libraries

local shared, grantMs, aliveMs, maxWaiters, inbox = string.match(waiting, '^(%d?) (%d+) (%d+) (%d+) (%S*)$')
local micros = time[1] * 1000000 + time[2]
local call = {
  now = now,
  micros = micros,
  shared = shared,
  present = { [record] = true },
  inbox = modeOf(record) == 'r' and inbox,
  isNew = inbox ~= '',
  aliveMs = tonumber(aliveMs),
}
local lock = openLock({ leases, fence, queue, waiters }, call)
if not lock then return redis.error_reply(layoutError) end
local isWaiting = redis.call('ZSCORE', queue, record)
local function reply(code, ...)
  lock.publish()
  return { code, now, lock.msLeft(), lock.record, ... }
end

local ending, held = lock.endOf(record)
if not ending then
  -- Waiters are served before this call.
  lock.grant()
  ending, held = lock.endOf(record)
  if not ending and lock.admits(record) then
    lock.take(record, tonumber(leaseMs), isWaiting)
    ending, held = now + leaseMs, record
  end
end
if ending then
  local fencingToken = lock.fencingTokenOf(held)
  lock.write({ isAcquire = true })
  lock.publish()
  return { 1, now, ending - now, fencingToken }
end
if inbox ~= '' and not isWaiting and lock.waiting >= tonumber(maxWaiters) then lock.purgeWaiters() end
local isFull = not isWaiting and lock.waiting >= tonumber(maxWaiters)
if inbox == '' or isFull then
  lock.write({ isAcquire = true })
  return reply(inbox == '' and 0 or 3)
end
-- Also if the caller is already in the queue: this reply may have another end of the leases than the first reply.
local waiter = { aliveUntil = now + aliveMs, watched = lock.watchedEnd(), grantMs = grantMs, inbox = inbox, asked = 0 }
lock.write({
  isAcquire = true,
  joining = not isWaiting and record or nil,
  stands = { record, storedWaiter(waiter) },
  aliveMs = tonumber(aliveMs),
})
return reply(2, redis.call('ZRANK', queue, record), lock.lookMs())
