-- look.lua - reads how many jobs a BullMQ queue has, and the slice that an adoption holds. Changes nothing.
--
-- KEYS[1]  wait             list    ids of ready jobs, the next one last
-- KEYS[2]  paused           list    the same, of a queue that an older version paused
-- KEYS[3]  prioritized      zset    ids of ready jobs with a priority
-- KEYS[4]  delayed          zset    ids of delayed jobs
-- KEYS[5]  active           list    ids of active jobs
-- KEYS[6]  failed           zset    ids of failed jobs
-- KEYS[7]  waitingChildren  zset    ids of parents that wait for their children
-- KEYS[8]  repeats          zset    id of a job scheduler to the instant of its next job, ms
-- KEYS[9]  meta             hash    `paused`
-- KEYS[10] state            hash    what an adoption holds; see hold.lua
--
-- Reply     {wait, paused, prioritized, delayed, active, failed, waitingChildren, repeats, isPaused, token, target, number, item, …}
--           counts; 1 if the queue is paused; of the state, empty and 0 without one; the items of the slice in order
local wait = KEYS[1]
local paused = KEYS[2]
local prioritized = KEYS[3]
local delayed = KEYS[4]
local active = KEYS[5]
local failed = KEYS[6]
local waitingChildren = KEYS[7]
local repeats = KEYS[8]
local meta = KEYS[9]
local state = KEYS[10]

local reply = {
  redis.call('LLEN', wait),
  redis.call('LLEN', paused),
  redis.call('ZCARD', prioritized),
  redis.call('ZCARD', delayed),
  redis.call('LLEN', active),
  redis.call('ZCARD', failed),
  redis.call('ZCARD', waitingChildren),
  redis.call('ZCARD', repeats),
  redis.call('HEXISTS', meta, 'paused'),
  redis.call('HGET', state, 'token') or '',
  redis.call('HGET', state, 'target') or '',
  redis.call('HGET', state, 'number') or '0',
}
for i = 1, tonumber(redis.call('HGET', state, 'count') or 0) do reply[#reply + 1] = redis.call('HGET', state, i) end
return reply
