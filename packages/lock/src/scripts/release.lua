-- release.lua - gives the lock back and hands it on; or leaves the queue.
--
-- KEYS[1]  lease         string   who holds it: `token|holder`
-- KEYS[2]  fence         string   `1:` and the last fencing token, `:` and who handed it on
-- KEYS[3]  queue         zset     token to ticket, in order of arrival
-- KEYS[4]  waiters       hash     token to `aliveUntil grantMs inbox holder`; `#` to the last ticket
-- ARGV[1]  shared        string   1 on a Cluster, 0 on a single server; empty: not known yet
-- ARGV[2]  token         string   of the acquire to undo; empty: take it by force
-- ARGV[3]  holder        string   as given to acquire; by force: the whole owner to take it from
-- ARGV[4]  fencingToken  string   of the lease to give back; empty: only the queue is to be left, if not granted
--
-- Reply     1  released, now or by an earlier copy of this call
--           2  left the queue
--           3  the lease is gone, and nobody has held the lock since
--           0  not held by this token, nor queued; nothing changed
--           error KIT_LAYOUT  written by a newer version; nothing changed
local lease = KEYS[1]
local fence = KEYS[2]
local queue = KEYS[3]
local waiters = KEYS[4]
local shared = ARGV[1]
local token = ARGV[2]
local holder = ARGV[3]
local fencingToken = ARGV[4]

local owner = redis.call('GET', lease)
local stored = redis.call('GET', fence)
if not nextFence(stored, 0) then return redis.error_reply(layoutError) end
if owner and owner == (token == '' and holder or token .. '|' .. holder) then
  local winner = grantNext(lease, fence, queue, waiters, shared, token, nil)
  if not winner and token == '' then
    -- The former holder must not take the free lock that it finds for the work of its own release.
    local _, micros = readClock()
    redis.call('SET', fence, '1:' .. nextFence(stored, micros), 'PX', fenceMs)
  end
  return 1
end
if token == '' then return 0 end
if redis.call('ZSCORE', queue, token) then
  redis.call('HDEL', waiters, token)
  redis.call('ZREM', queue, token)
  return 2
end
local last, from = string.match(stored or '', '^%d+:(%d+):?(.*)$')
if from == token then return 1 end
if not owner and last == fencingToken then return 3 end
return 0
