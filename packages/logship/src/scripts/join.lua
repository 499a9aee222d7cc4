-- join.lua - a process becomes the one that works as this consumer.
--
-- KEYS[1]   channel       hash   the record of the channel
-- KEYS[2]   consumers     hash   consumer to `fence after op`
-- KEYS[3]   seen          zset   consumer to the ms of its last sign
-- KEYS[4]   free          hash   key-part of a chunk that no consumer needs to the bytes it counts for
-- ARGV[1]  consumer   string   name
-- ARGV[2]  from       string   what a new consumer gets: start, oldest or now
-- ARGV[3]  epoch      string   of the channel, if it is new
-- ARGV[4]  op         string   id of this joining: sent again it gives the same fence
--
-- Reply     {1, epoch, fence, after, part, …}  it gets files with an id above `after`; parts to unlink
--           {2}  a new consumer cannot have everything any more
--           {3}  this consumer was dropped
--           error KIT_LAYOUT  written by a newer version
local channel = KEYS[1]
local consumers = KEYS[2]
local seen = KEYS[3]
local free = KEYS[4]
local consumer = ARGV[1]
local from = ARGV[2]
local epoch = ARGV[3]
local op = ARGV[4]

-- Libraries

local layout = redis.call('HGET', channel, 'layout')
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT it was written by a newer version') end
if redis.call('HGET', channel, 'dropped ' .. consumer) then return { 3 } end
local known = redis.call('HGET', consumers, consumer)
failOnOtherType(seen)
local pending = redis.call('HRANDFIELD', free, 200)
local state = redis.call('HMGET', channel, 'lastFile', 'trimmed')
local after = known and string.match(known, ' (%d+)') or '0'
if not known and from == 'start' and state[2] then return { 2 } end
if not known and from == 'now' then after = state[1] or '0' end
-- This consumer will free more.
allowWrites(seen)
if not layout then createChannel(channel, epoch) end
local fence = known and string.match(known, '^%d+')
if not known or string.match(known, '%S*$') ~= op then
  fence = nextFence(channel)
  redis.call('HSET', consumers, consumer, fence .. ' ' .. after .. ' ' .. op)
end
redis.call('ZADD', seen, readClock(), consumer)
local reply = { 1, redis.call('HGET', channel, 'epoch'), fence, after }
for _, part in ipairs(pending) do reply[#reply + 1] = part end
return reply
