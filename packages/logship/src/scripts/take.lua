-- take.lua - gives the next sums of a result to be added elsewhere; the same ones until they are acknowledged.
--
-- KEYS[1]  owner    hash     `sent <key>`, `result <key>` of each key with results
-- KEYS[2]  source   hash     field to sum
-- KEYS[3]  sending  hash     the same of those that are given out
-- ARGV[1]  ack      string   number of those that have been added elsewhere; 0: none
--
-- Reply     {} when there are none; else {number, field, sum, …}
local owner = KEYS[1]
local source = KEYS[2]
local sending = KEYS[3]
local ack = ARGV[1]

-- Libraries

local last = redis.call('HGET', owner, 'sent ' .. source)
redis.call('HLEN', sending)
redis.call('HLEN', source)
if last == ack then redis.call('UNLINK', sending) end
if redis.call('HLEN', sending) == 0 then
  local some = redis.call('HRANDFIELD', source, 500, 'WITHVALUES')
  if #some == 0 then return {} end
  -- The writes that free memory come first: at maxmemory they allow the others.
  for i = 1, #some, 2 do redis.call('HDEL', source, some[i]) end
  for i = 1, #some, 2 do redis.call('HSET', sending, some[i], some[i + 1]) end
  -- The numbers of a deleted job or channel of this name are lower.
  redis.call('HSETNX', owner, 'sent ' .. source, readMicros())
  redis.call('HINCRBY', owner, 'sent ' .. source, 1)
  redis.call('HSET', owner, 'result ' .. sending, 1)
end
local reply = redis.call('HGETALL', sending)
table.insert(reply, 1, redis.call('HGET', owner, 'sent ' .. source))
return reply
