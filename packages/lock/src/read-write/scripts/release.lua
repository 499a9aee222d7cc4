-- release.lua - ends a lease, for reading or for writing, and grants to the first waiters; or leaves the queue.
--
-- KEYS[1]  leases   zset     record `mode|token|holder` to the end of its lease, in epoch milliseconds; mode `r` or `w`
-- KEYS[2]  fence    string   `1:` and the last fencing token; 0: none yet
-- KEYS[3]  queue    zset     record to ticket, in order of arrival
-- KEYS[4]  waiters  hash     record to `aliveUntil watched grantMs inbox asked`; `#` to the last ticket
-- ARGV[1]  record   string   the caller: `mode|token|holder`; the lease may have the other mode by now
-- ARGV[2]  terms    string   `shared keepMs`: 1 on a Cluster, 0 on a single server, empty if not known yet; how long an unused
--                            name's token is kept, empty for the week since its grant
--
-- Reply     1  released
--           2  left the queue
--           0  neither such a lease nor a place in the queue
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local leases = KEYS[1]
local fence = KEYS[2]
local queue = KEYS[3]
local waiters = KEYS[4]
local record = ARGV[1]
local terms = ARGV[2]

local held = record
local ending = redis.call('ZSCORE', leases, held)
if not ending then
  held = (string.sub(record, 1, 1) == 'r' and 'w' or 'r') .. string.sub(record, 2)
  ending = redis.call('ZSCORE', leases, held)
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local isHeld = ending and tonumber(ending) > now
-- The common case: there are no waiters, and `keepMs` is empty: the terms end with a blank. The layout is ours, because the lease is.
if ending and string.byte(terms, -1) == 32 and redis.call('EXISTS', queue) == 0 then
  redis.call('ZREM', leases, held)
  return isHeld and 1 or 0
end

-- Libraries

local shared, keepMs = string.match(terms, '^(%d?) (%d*)$')
local isWaiting = not ending and redis.call('ZSCORE', queue, record)
local micros = time[1] * 1000000 + time[2]
local leaving = isWaiting and record or held
local call = { now = now, micros = micros, shared = shared, present = {}, leaving = leaving }
local lock = openLock({ leases, fence, queue, waiters }, call)
if not lock then return redis.error_reply(layoutError) end
if not ending and not isWaiting then return 0 end
-- A waiter that leaves may also have been the one that stopped the others.
if isWaiting then lock.leaveQueue(record) end
lock.grant()
lock.write({ keepMs = keepMs })
lock.publish()
return isHeld and 1 or isWaiting and 2 or 0
