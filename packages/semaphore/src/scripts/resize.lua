-- resize.lua - changes the limits, and grants what the new limits allow. It ends no permit.
--
-- KEYS[1]  permits    zset     permit record to the instant at which it ends, in epoch ms; counts below 0, rows by tenant at 0
-- KEYS[2]  meta       hash     layout and limits
-- KEYS[3]  queue      zset     the waiters: rows `tenant score permitRecord`; suspended: `|aliveUntil permitRecord`
-- KEYS[4]  ready      zset     tenant to the score of its first waiter, if the tenant has room for it
-- KEYS[5]  waiters    hash     permit record to `aliveUntil watched score grantMs inbox`; `#` to the last ticket
-- ARGV[1]  shared          string   1 on a Cluster, 0 on a single server; empty: not known yet
-- ARGV[2]  limit           string   the new limit; empty: as it is
-- ARGV[3]  perTenant       string   the limit of each tenant; empty: as it is; `-`: none, it is no longer a group
-- ARGV[4]  first           integer  the caller's own limits, used if the server has none
-- ARGV[5]  firstPerTenant  string   empty: no tenants
-- ARGV[6]  from            string   where to continue, from the last reply; empty: this is the first call
-- ARGV[7]  notAfter        integer  the limits are not changed after this instant, in epoch milliseconds; 0 if not known
-- ARGV[8]  askedAt         integer  when the caller requested the change, in epoch milliseconds; 0 if not known
--
-- Reply     from  not all waiting tenants are re-evaluated yet: call again, for that alone
--           1     done, but there may be more to grant than one call does
--           0     done
--           late  it is after notAfter: nothing changed
--           superseded  a change is stored that was requested later: nothing changed
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local permits = KEYS[1]
local meta = KEYS[2]
local queue = KEYS[3]
local ready = KEYS[4]
local waiters = KEYS[5]
local shared = ARGV[1]
local limit = ARGV[2]
local perTenant = ARGV[3]
local first = ARGV[4]
local firstPerTenant = ARGV[5]
local from = ARGV[6]
local notAfter = tonumber(ARGV[7])
local askedAt = tonumber(ARGV[8])

allowLeaseWrites(ready)
local now = readClock()
-- A late repeat would replace newer limits with these.
if notAfter > 0 and now > notAfter then return 'late' end
local keys = { permits, meta, queue, ready, waiters }
local semaphore = openSemaphore(keys, {
  now = now,
  shared = shared,
  present = {},
  limit = first,
  perTenant = firstPerTenant,
})
if not semaphore then return redis.error_reply(layoutError) end
-- The same after a later change. A change from the future shows that the server's clock was set back.
local changedAt = semaphore.changedAt
if from == '' and askedAt > 0 and askedAt < changedAt and changedAt <= now then
  semaphore.finish()
  return 'superseded'
end
if from == '' then
  limit = tonumber(limit) or semaphore.limit
  if perTenant == '' then perTenant = semaphore.perTenant end
  perTenant = tonumber(perTenant)
  redis.call('HSET', meta, 'permits', string.format('%.0f', limit))
  if askedAt > 0 then redis.call('HSET', meta, 'changedAt', string.format('%.0f', math.min(askedAt, now))) end
  if perTenant then
    redis.call('HSET', meta, 'perTenant', string.format('%.0f', perTenant))
  else
    redis.call('HDEL', meta, 'perTenant')
  end
  redis.call('PEXPIRE', meta, metaMs)
  if semaphore.resize(limit, perTenant) then from = '-' end
end
if from ~= '' then
  local rest = semaphore.reevaluateFrom(from)
  if rest then
    semaphore.finish()
    return rest
  end
end
semaphore.expirePermits()
local isMore = semaphore.grant(true)
semaphore.finish()
return isMore and 1 or 0
