-- resize.lua - sets the limits, and grants what they allow now. Takes nothing from anybody.
--
-- KEYS[1]  permits    zset     claim to the instant at which its permit ends, in epoch milliseconds
-- KEYS[2]  meta       hash     layout, limits, and what is counted
-- KEYS[3]  line       zset     the waiters: rows `tenant score claim`; set aside: `|aliveUntil claim`
-- KEYS[4]  heads      zset     tenant to the score of its first waiter, where that has room in its tenant
-- KEYS[5]  waiters    hash     claim to `aliveUntil watched score grantMs inbox`; `#` to the last ticket
-- ARGV[1]  shared     string   1 on a Cluster, 0 on a single server; empty: not known yet
-- ARGV[2]  limit      integer  the new limit
-- ARGV[3]  perTenant  string   that of each tenant; empty: as it is
--
-- Reply     1  there may be more to grant than one call does: to be called again
--           0  done
--           error KIT_LAYOUT  written by a newer version; nothing changed
local permits = KEYS[1]
local meta = KEYS[2]
local line = KEYS[3]
local heads = KEYS[4]
local waiters = KEYS[5]
local shared = ARGV[1]
local limit = ARGV[2]
local perTenant = ARGV[3]

-- A write of nothing: at maxmemory those that follow one that shrinks are allowed.
redis.call('ZREM', heads, '|')
local now = readClock()
local keys = { permits, meta, line, heads, waiters }
local semaphore = openSemaphore(keys, {
  now = now,
  shared = shared,
  present = {},
  limit = limit,
  perTenant = perTenant,
})
if not semaphore then return redis.error_reply(layoutError) end
redis.call('HSET', meta, 'permits', limit)
semaphore.resize(tonumber(limit), tonumber(perTenant))
if perTenant ~= '' then redis.call('HSET', meta, 'perTenant', perTenant) end
redis.call('PEXPIRE', meta, metaMs)
semaphore.sweep()
return semaphore.grant(true) and 1 or 0
