-- downgrade.lua - turns a writer's lease into a reader's, and grants to the readers at the head of the queue.
--
-- KEYS[1]  leases   zset     record `mode|token|holder` to the end of its lease, in epoch milliseconds; mode `r` or `w`
-- KEYS[2]  fence    string   `1:` and the last fencing token; 0: none yet
-- KEYS[3]  queue    zset     record to ticket, in order of arrival
-- KEYS[4]  waiters  hash     record to `aliveUntil watched grantMs inbox asked`; `#` to the last ticket
-- ARGV[1]  record   string   the holder: `mode|token|holder`, of either mode
-- ARGV[2]  terms    string   `shared newest`: 1 on a Cluster, 0 on a single server, empty if not known yet; the newest fencing
--                            token of the lease that the caller knows, empty if an upgrade of it had no reply. A writer with
--                            a newer token stays: this call is a late copy from before its upgrade
--
-- Reply     1  the lease is a reader's, now or since before, or this call came late; its end is the same
--           0  there is no longer such a lease
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local leases = KEYS[1]
local fence = KEYS[2]
local queue = KEYS[3]
local waiters = KEYS[4]
local record = ARGV[1]
local terms = ARGV[2]

local shared, newest = string.match(terms, '^(%d?) (%d*)$')
local now, micros = readClock()
local writer = inMode('w', record)
local call = { now = now, micros = micros, shared = shared, present = {}, leaving = writer }
local lock = openLock({ leases, fence, queue, waiters }, call)
if not lock then return redis.error_reply(layoutError) end
local ending, held = lock.endOf(record)
local last = string.match(redis.call('GET', fence) or '', '^1:(%d+)')
local isLate = last and newest ~= '' and tonumber(last) > tonumber(newest)
if held == writer and not isLate then
  lock.hold(inMode('r', record), ending)
  lock.grant()
  lock.write({})
  lock.publish()
end
return ending and 1 or 0
