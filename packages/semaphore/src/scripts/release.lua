-- release.lua - releases a permit and grants the free room; or leaves the queue.
--
-- KEYS[1]  permits  zset     permit record to the instant at which it ends, in epoch ms; counts below 0, rows by tenant at 0
-- KEYS[2]  meta     hash     layout and limits
-- KEYS[3]  queue    zset     the waiters: rows `tenant score permitRecord`; suspended: `|aliveUntil permitRecord`
-- KEYS[4]  ready    zset     tenant to the score of its first waiter, if the tenant has room for it
-- KEYS[5]  waiters  hash     permit record to `aliveUntil watched score grantMs inbox`; `#` to the last ticket
-- ARGV[1]  permitRecord  string   the permit: `token|weight|tenant|holder`
-- ARGV[2]  shared   string   1 on a Cluster, 0 on a single server; empty: not known yet
--
-- Reply     1  released
--           2  left the queue
--           0  neither such a permit nor a place in the queue
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local permits = KEYS[1]
local meta = KEYS[2]
local queue = KEYS[3]
local ready = KEYS[4]
local waiters = KEYS[5]
local permitRecord = ARGV[1]
local shared = ARGV[2]

local ending = redis.call('ZSCORE', permits, permitRecord)
-- The common case: there is no waiter, and the permit counts as one, without a tenant. The layout is ours, because the permit is.
if ending and redis.call('EXISTS', queue) == 0 and string.match(permitRecord, '^[^|]*|1||') then
  redis.call('ZREM', permits, permitRecord)
  local time = redis.call('TIME')
  return tonumber(ending) > time[1] * 1000 + math.floor(time[2] / 1000) and 1 or 0
end

-- Libraries

local now = readClock()
local semaphore = openSemaphore({ permits, meta, queue, ready, waiters }, { now = now, shared = shared, present = {} })
if not semaphore then return redis.error_reply(layoutError) end
local code = 0
if ending then
  code = semaphore.drop(permitRecord, ending) and 1 or 0
elseif semaphore.leave(permitRecord) then
  code = 2
else
  if semaphore.isRegained then semaphore.grant() end
  semaphore.finish()
  return 0
end
semaphore.expirePermits()
semaphore.grant(true)
semaphore.finish()
return code
