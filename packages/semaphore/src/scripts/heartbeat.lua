-- heartbeat.lua - keeps waiters alive, and replies with the state of each.
--
-- KEYS[1]  permits    zset     permit record to the instant at which it ends, in epoch ms; counts below 0, rows by tenant at 0
-- KEYS[2]  meta       hash     layout and limits
-- KEYS[3]  queue      zset     the waiters: rows `tenant score permitRecord`; suspended: `|aliveUntil permitRecord`
-- KEYS[4]  ready      zset     tenant to the score of its first waiter, if the tenant has room for it
-- KEYS[5]  waiters    hash     permit record to `aliveUntil watched score grantMs inbox`; `#` to the last ticket
-- ARGV[1]  shared     string   1 on a Cluster, 0 on a single server; empty: not known yet
-- ARGV[2]  aliveMs    integer  how long a waiter counts as alive without a heartbeat, milliseconds
-- ARGV[3]  limit      integer  the caller's own limits, used if the server has none
-- ARGV[4]  perTenant  string   empty: no tenants
-- ARGV[5]  inbox      string   the channel that notifies them from now on, `-` for none, `+` for one that is being opened
-- ARGV[n]  permitRecords  string   the waiters of this heartbeat, 500 at most
--
-- Reply     {now, msLeft, permits, perTenant, used, state, …}, msLeft to the end of the next permit (-1: there is none;
--           -2: more could be granted), perTenant -1 without tenants, and a state for each waiter:
--            0, 1, …    how many of its tenant are before it
--           -1          unknown here: never queued, or the server lost it, or its permit ran out
--           -2, -3, …   it has a permit; the milliseconds left are the state negated, less two
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local permits = KEYS[1]
local meta = KEYS[2]
local queue = KEYS[3]
local ready = KEYS[4]
local waiters = KEYS[5]
local shared = ARGV[1]
local aliveMs = tonumber(ARGV[2])
local limit = ARGV[3]
local perTenant = ARGV[4]
local inbox = ARGV[5]
local permitRecords = { unpack(ARGV, 6) }

local now = readClock()
local present = {}
for _, permitRecord in ipairs(permitRecords) do
  present[permitRecord] = true
end
local keys = { permits, meta, queue, ready, waiters }
local semaphore = openSemaphore(keys, {
  now = now,
  shared = shared,
  present = present,
  limit = limit,
  perTenant = perTenant,
})
if not semaphore then return redis.error_reply(layoutError) end
allowLeaseWrites(queue)
semaphore.expirePermits()
semaphore.purgeSuspended()
semaphore.heartbeat(permitRecords, string.format('%.0f', now + aliveMs), inbox)
local isMore = semaphore.grant(true)
semaphore.keepQueue(aliveMs)
local msLeft = isMore and -2 or semaphore.msLeft()
local reply = { now, msLeft, semaphore.limit, semaphore.perTenant or -1, semaphore.used }
for i, state in ipairs(semaphore.statesOf(permitRecords)) do
  reply[i + 5] = state
end
semaphore.finish()
return reply
