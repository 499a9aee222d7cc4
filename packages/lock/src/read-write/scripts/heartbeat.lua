-- heartbeat.lua - keeps waiters alive, and replies with the state of each.
--
-- KEYS[1]  leases   zset     record `mode|token|holder` to the end of its lease, in epoch milliseconds; mode `r` or `w`
-- KEYS[2]  fence    string   `1:` and the last fencing token; 0: none yet
-- KEYS[3]  queue    zset     record to ticket, in order of arrival
-- KEYS[4]  waiters  hash     record to `aliveUntil watched grantMs inbox asked`; `#` to the last ticket
-- ARGV[1]  shared   string   1 on a Cluster, 0 on a single server; empty: not known yet
-- ARGV[2]  aliveMs  integer  how long a waiter counts as alive without a heartbeat, milliseconds
-- ARGV[3]  inbox    string   the channel that notifies them from now on, `-` for none, `+` for one that is being opened
-- ARGV[n]  records  string   the waiters of this heartbeat, 500 at most
--
-- Reply     {now, lookMs, msLeft, owner, fencingToken, state, …}, msLeft to the latest end of the leases (-2: there is none) and the
--           record that it belongs to; lookMs to the next heartbeat, the same or sooner; the fencing token of a waiter that
--           writes now, else empty; a state for each waiter:
--            0, 1, …    its position in the queue
--           -1          unknown here: never queued, or the server lost it, or its lease ran out
--           -2, -3, …   it has a lease; the milliseconds left are the state negated, less two
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local leases = KEYS[1]
local fence = KEYS[2]
local queue = KEYS[3]
local waiters = KEYS[4]
local shared = ARGV[1]
local aliveMs = tonumber(ARGV[2])
local inbox = ARGV[3]
local records = { unpack(ARGV, 4) }

local now, micros = readClock()
local stands = redis.call('HMGET', waiters, unpack(records))
local present, hasReader = {}, false
for i, record in ipairs(records) do
  if stands[i] then
    present[record] = true
    hasReader = hasReader or modeOf(record) == 'r'
  end
end
local call = { now = now, micros = micros, shared = shared, present = present, aliveMs = aliveMs, inbox = hasReader and inbox }
local lock = openLock({ leases, fence, queue, waiters }, call)
if not lock then return redis.error_reply(layoutError) end
lock.grant()

local states, kept, fencingToken = {}, {}, ''
for i, record in ipairs(records) do
  local waiter = parseWaiter(stands[i])
  if waiter and not lock.isGone[record] then
    waiter.aliveUntil, waiter.watched, waiter.inbox = now + aliveMs, lock.watchedEnd(), inbox
    waiter.asked = -math.abs(waiter.asked)
    kept[#kept + 1] = record
    kept[#kept + 1] = storedWaiter(waiter)
  else
    local ending, held = lock.endOf(record)
    states[i] = ending and now - ending - 2 or nil
    if ending then fencingToken = fencingToken .. lock.fencingTokenOf(held) end
  end
end
lock.write({ stands = kept, aliveMs = #kept > 0 and aliveMs or nil })
local reply = { now, lock.lookMs(), lock.msLeft(), lock.record, fencingToken }
for i, record in ipairs(records) do
  reply[i + 5] = states[i] or (lock.waiting > 0 and redis.call('ZRANK', queue, record)) or -1
end
lock.publish()
return reply
