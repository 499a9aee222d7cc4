-- take.lua - returns the next sums of a result, to add them elsewhere. Repeats the same sums until they are acknowledged.
--
-- KEYS[1]  owner    hash     `sent <key>`, `result <key>` of each key with results
-- KEYS[2]  source   hash     field to sum
-- KEYS[3]  sending  hash     the same of those that are given out
-- ARGV[1]  ack      string   number of those that have been added elsewhere; 0: none
--
-- Reply     {} when there are none; else {number, field, sum, …}
--           error KIT_LAYOUT  the last number is damaged; nothing was changed
local owner = KEYS[1]
local source = KEYS[2]
local sending = KEYS[3]
local ack = ARGV[1]

-- Libraries

local last = redis.call('HGET', owner, 'sent ' .. source)
failOnOtherType(source)
local given, some = redis.call('HGETALL', sending), {}
-- Sums whose number is missing, or that clients cannot repeat exactly, would never be acknowledged: the sink would get them for ever.
local isExact = last and string.find(last, '^[1-9]%d*$') and tonumber(last) < 9007199254740991
if not isExact and (last or #given > 0) then
  return redis.error_reply('KIT_LAYOUT the number of the last sums is damaged')
end
if #given == 0 or last == ack then
  some = redis.call('HRANDFIELD', source, 500, 'WITHVALUES')
  if #some == 0 then
    if #given > 0 then redis.call('UNLINK', sending) end
    return {}
  end
  -- Removes nothing. At maxmemory Redis allows writes in a script after one that can only free memory.
  redis.call('HDEL', owner, '')
  -- Overwrites the key: while the slot moves to another node, a script fails at a key that it has emptied.
  local isGiven = {}
  for i = 1, #some, 2 do
    redis.call('HSET', sending, some[i], some[i + 1])
    isGiven[some[i]] = true
  end
  for i = 1, #given, 2 do
    if not isGiven[given[i]] then redis.call('HDEL', sending, given[i]) end
  end
  -- The numbers of a deleted job or channel of this name are lower.
  redis.call('HSETNX', owner, 'sent ' .. source, readMicros())
  redis.call('HINCRBY', owner, 'sent ' .. source, 1)
  redis.call('HSET', owner, 'result ' .. sending, 1)
end
local reply = redis.call('HGETALL', sending)
table.insert(reply, 1, redis.call('HGET', owner, 'sent ' .. source))
for i = 1, #some, 2 do redis.call('HDEL', source, some[i]) end
return reply
