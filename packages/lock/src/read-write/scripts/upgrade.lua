-- upgrade.lua - turns a reader's lease into a writer's, if no other lease is left. It never waits.
--
-- KEYS[1]  leases   zset     record `mode|token|holder` to the end of its lease, in epoch milliseconds; mode `r` or `w`
-- KEYS[2]  fence    string   `1:` and the last fencing token; 0: none yet
-- KEYS[3]  queue    zset     record to ticket, in order of arrival
-- KEYS[4]  waiters  hash     record to `aliveUntil watched grantMs inbox asked`; `#` to the last ticket
-- ARGV[1]  record   string   the holder: `mode|token|holder`, of either mode
--
-- Reply     fencingToken  the lease is a writer's, now or since before; its end is the same
--           1  others also read
--           0  there is no longer such a lease
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local leases = KEYS[1]
local fence = KEYS[2]
local queue = KEYS[3]
local waiters = KEYS[4]
local record = ARGV[1]

local now, micros = readClock()
local reader = inMode('r', record)
local call = { now = now, micros = micros, shared = '', present = {}, leaving = reader }
local lock = openLock({ leases, fence, queue, waiters }, call)
if not lock then return redis.error_reply(layoutError) end
local ending, held = lock.endOf(record)
if not ending then return 0 end
-- `mode` is the mode of the other leases.
if held == reader and lock.mode then return 1 end
local fencingToken = held == reader and lock.nextFencingToken() or lock.fencingTokenOf(held)
if held == reader then lock.hold(inMode('w', record), ending) end
lock.write({})
return fencingToken
