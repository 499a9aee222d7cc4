-- acquire.lua - takes a permit if there is room and no waiter; else queues, on request.
--
-- KEYS[1]  permits  zset     permit record to the instant at which it ends, in epoch ms; counts below 0, rows by tenant at 0
-- KEYS[2]  meta     hash     layout and limits
-- KEYS[3]  queue    zset     the waiters: rows `tenant score permitRecord`; suspended: `|aliveUntil permitRecord`
-- KEYS[4]  ready    zset     tenant to the score of its first waiter, if the tenant has room for it
-- KEYS[5]  waiters  hash     permit record to `aliveUntil watched score grantMs inbox`; `#` to the last ticket
-- ARGV[1]  permitRecord  string   the request: `token|weight|tenant|holder`, a token of this acquire alone
-- ARGV[2]  terms    string   `leaseMs notAfter permits perTenant shared priority grantMs aliveMs maxWaiters inbox`, one text
--                            because each operand costs time: length of the lease, ms; server epoch ms after which the
--                            caller no longer waits for the answer, 0 for none; the caller's own limits, the second empty
--                            without tenants; and for a waiter: 1 on a Cluster, 0 on a single server, empty if not
--                            known yet; its priority, lower is sooner; first length if it is granted later; how
--                            long a waiter counts as alive without a heartbeat; how many may queue; channel to be
--                            notified on, `-` for none, `+` for one that is being opened, empty: do not queue
--
-- Reply     now                                               granted just now, and the limits are the caller's
--           {1, now, msLeft, permits, perTenant}              granted; perTenant -1: none
--           {2, now, msLeft, permits, perTenant, used, position}  queued, at a position from 0; msLeft to the next end
--           {0, now, msLeft, permits, perTenant, used}        full, and not queued
--           {3, now, msLeft, permits, perTenant, used}        full, and too many wait
--           {4, now}                                          too late: notAfter has passed
--           {5, now, 0, permits, perTenant}                   heavier than the limits ever allow
--           {6, now, 0, permits, perTenant}                   unknown while some ended permits are left to drop: call again
--           error KIT_LAYOUT                                  written by a newer version, or damaged; nothing changed
local permits = KEYS[1]
local meta = KEYS[2]
local queue = KEYS[3]
local ready = KEYS[4]
local waiters = KEYS[5]
local permitRecord = ARGV[1]
local terms = ARGV[2]

local leaseMs, notAfter, first, firstPerTenant, waiting = string.match(terms, '^(%d+) (%d+) (%d+) (%d*) (.*)$')
local token, weight, tenant = string.match(permitRecord, '^([^|]*)|(%d+)|([^|]*)|')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if notAfter ~= '0' and now > tonumber(notAfter) then return { 4, now } end

-- The common case: there is room and no waiter. The seven days are the metaMs of grant.lua.
local layout, limit, perTenant = unpack(redis.call('HMGET', meta, 'layout', 'permits', 'perTenant'))
-- Someone else wrote a value that is not a number: it is rejected below.
local function digits(text) return #text < 16 and string.match(text, '^%d+$') and tonumber(text) end
local most, mostPerTenant = digits(limit or ''), digits(perTenant or '0')
if layout == '1' and most and mostPerTenant and redis.call('EXISTS', queue) == 0 then
  local held = redis.call('ZCOUNT', permits, '(0', '+inf')
  local beyond, own, known = 0, 0, false
  if held > 0 then
    beyond, own, known = unpack(redis.call('ZMSCORE', permits, '#', '#' .. tenant, permitRecord))
    beyond, own = -(beyond or 0), -(own or 0)
  end
  local isRoomy = held + beyond + weight <= most and (not perTenant or tenant == '' or own + weight <= mostPerTenant)
  -- One call in sixteen, chosen by the microseconds, looks for ended permits, which are dropped below.
  local isSweeping = held > 0 and time[2] % 16 == 0 and #redis.call('ZRANGEBYSCORE', permits, '(0', now, 'LIMIT', 0, 1) > 0
  if isRoomy and not isSweeping then
    local rows = { string.format('%.0f', now + leaseMs), permitRecord }
    local function count(name, sum)
      rows[#rows + 1] = string.format('%.0f', -sum)
      rows[#rows + 1] = name
    end
    if not known and weight ~= '1' then count('#', beyond + weight - 1) end
    if not known and tenant ~= '' then
      count('#' .. tenant, own + weight)
      rows[#rows + 1] = 0
      rows[#rows + 1] = '=' .. tenant .. ' ' .. permitRecord
    end
    redis.call('ZADD', permits, unpack(rows))
    if held == 0 or redis.call('PTTL', permits) < leaseMs + 1000 then redis.call('PEXPIRE', permits, 2 * leaseMs + 1000) end
    redis.call('PEXPIRE', meta, 604800000)
    if limit == first and (perTenant or '') == firstPerTenant then return now end
    return { 1, now, tonumber(leaseMs), most, tonumber(perTenant or -1) }
  end
end

-- Libraries

local shared, priority, grantMs, aliveMs, maxWaiters, inbox =
  string.match(waiting, '^(%d?) (-?%d+) (%d+) (%d+) (%d+) (%S*)$')
local keys = { permits, meta, queue, ready, waiters }
local semaphore = openSemaphore(keys, {
  now = now,
  shared = shared,
  present = { [permitRecord] = tonumber(leaseMs) },
  tenant = tenant,
  limit = first,
  perTenant = firstPerTenant,
})
if not semaphore then return redis.error_reply(layoutError) end
local function reply(code, msLeft, ...)
  semaphore.finish()
  return { code, now, msLeft, semaphore.limit, semaphore.perTenant or -1, ... }
end

if semaphore.isTooHeavy(tonumber(weight), tenant) then
  if semaphore.isRegained then semaphore.grant() end
  return reply(5, 0)
end
semaphore.purgeSuspended()
local most = tonumber(maxWaiters)
local hasPurged = inbox ~= '' and semaphore.waiting >= most and semaphore.purgeDead()
local hasShrunk = semaphore.expirePermits() or hasPurged
-- Waiters are served before this call.
if hasShrunk or semaphore.isRegained then semaphore.grant(hasShrunk) end
local ending = semaphore.endOf(permitRecord)
if ending then return reply(1, ending - now) end
local known = semaphore.waiterOf(permitRecord)
local mayFit = semaphore.fits(permitRecord)
ending = mayFit and not known and semaphore.takeAlone(permitRecord, tonumber(leaseMs), hasShrunk)
if ending then return reply(1, ending - now) end
if not mayFit and not known then
  if semaphore.mayFitLater(permitRecord) then return reply(6, 0) end
  if inbox == '' then return reply(0, semaphore.msLeft(), semaphore.used) end
end
-- A full queue still has a place for each tenant without a waiter, up to twice its size: one tenant cannot keep all others out.
local isFull = not known and semaphore.waiting >= most
  and (tenant == '' or semaphore.waiting >= 2 * most or semaphore.hasWaiter(tenant))
if isFull and not mayFit then return reply(3, semaphore.msLeft(), semaphore.used) end
-- Earlier waiters are served first, and this caller may be the next.
local aliveUntil = string.format('%.0f', now + aliveMs)
local position = semaphore.join(known, permitRecord, aliveUntil, priority, grantMs, inbox == '' and '-' or inbox)
if mayFit then
  semaphore.grant()
  ending = semaphore.endOf(permitRecord)
  position = ending and -1 or semaphore.positionOf(permitRecord)
end
local isRefused = not ending and not known and (inbox == '' or (isFull and semaphore.waiting > most))
if isRefused then semaphore.leave(permitRecord) end
semaphore.keepQueue(tonumber(aliveMs))
if ending then return reply(1, ending - now) end
if isRefused then return reply(inbox == '' and 0 or 3, semaphore.msLeft(), semaphore.used) end
return reply(2, semaphore.msLeft(), semaphore.used, position)
