-- acquire.lua - takes the lock if it is free and nobody waits; else queues up, if asked to.
--
-- KEYS[1]  lease       string   who holds it: `token|holder`
-- KEYS[2]  fence       string   `1:` and the last fencing token, `:` and who handed it on
-- KEYS[3]  queue       zset     token to ticket, in order of arrival
-- KEYS[4]  waiters     hash     token to `aliveUntil grantMs inbox holder`; `#` to the last ticket
-- ARGV[1]  shared      string   1 on a Cluster, 0 on a single server; empty: not known yet
-- ARGV[2]  token       string   random, of this acquire alone
-- ARGV[3]  holder      string   who it is, for people
-- ARGV[4]  leaseMs     integer  time to live of the lease, milliseconds
-- ARGV[5]  grantMs     integer  first time to live if it is granted later, milliseconds
-- ARGV[6]  inbox       string   channel to be told on; `-` if there is none; empty: do not queue
-- ARGV[7]  aliveMs     integer  how long a waiter counts as alive without a beat, milliseconds
-- ARGV[8]  maxWaiters  integer  how many may queue
-- ARGV[9]  notAfter    integer  server epoch milliseconds after which nobody waits for the answer; 0 for none
--
-- Reply     {1, now, msLeft, fencingToken}     granted; the same again for a token that holds it
--           {2, now, msLeft, owner, position}  queued, at a position from 0; msLeft of the holder's lease
--           {0, now, msLeft, owner}            held by another, and not queued
--           {3, now, msLeft, owner}            held by another, and too many wait
--           {4, now}                           too late: notAfter has passed
--           error KIT_LAYOUT                   written by a newer version; nothing changed but the fence's expiry
local lease = KEYS[1]
local fence = KEYS[2]
local queue = KEYS[3]
local waiters = KEYS[4]
local shared = ARGV[1]
local token = ARGV[2]
local holder = ARGV[3]
local leaseMs = ARGV[4]
local grantMs = ARGV[5]
local inbox = ARGV[6]
local aliveMs = tonumber(ARGV[7])
local maxWaiters = tonumber(ARGV[8])
local notAfter = tonumber(ARGV[9])

local now, micros = readClock()
if notAfter > 0 and now > notAfter then return { 4, now } end

local function take()
  local last = redis.call('SET', fence, '1:' .. string.format('%.0f', micros), 'PX', fenceMs, 'GET')
  local fencingToken = nextFence(last, micros)
  if not fencingToken then
    redis.call('SET', fence, last, 'PX', fenceMs)
    return redis.error_reply(layoutError)
  end
  if last and tonumber(fencingToken) > micros then redis.call('SET', fence, '1:' .. fencingToken, 'PX', fenceMs) end
  redis.call('SET', lease, token .. '|' .. holder, 'PX', leaseMs)
  return { 1, now, tonumber(leaseMs), fencingToken }
end

if redis.call('EXISTS', lease, queue) == 0 then return take() end

local last = redis.call('GET', fence)
if not nextFence(last, 0) then return redis.error_reply(layoutError) end
local owner = redis.call('GET', lease)
local position = redis.call('ZRANK', queue, token)
if not owner then
  -- The holder's lease ran out and others wait: they come first. If none of them can be told, we do.
  if not grantNext(lease, fence, queue, waiters, shared, '', { [token] = true }) then
    if position then
      redis.call('ZREM', queue, token)
      redis.call('HDEL', waiters, token)
    end
    return take()
  end
  owner = redis.call('GET', lease)
  last = redis.call('GET', fence)
end
local msLeft = redis.call('PTTL', lease)
if owner == token .. '|' .. holder then return { 1, now, msLeft, string.match(last, '^%d+:(%d+)') } end
if inbox == '' then return { 0, now, msLeft, owner } end
if not position then
  if redis.call('ZCARD', queue) >= maxWaiters then return { 3, now, msLeft, owner } end
  local ticket = redis.call('HINCRBY', waiters, '#', 1)
  local record = table.concat({ string.format('%.0f', now + aliveMs), grantMs, inbox, holder }, ' ')
  redis.call('ZADD', queue, ticket, token)
  redis.call('HSET', waiters, token, record)
  redis.call('PEXPIRE', queue, aliveMs + 1000)
  redis.call('PEXPIRE', waiters, aliveMs + 1000)
end
return { 2, now, msLeft, owner, redis.call('ZRANK', queue, token) }
