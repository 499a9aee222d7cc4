-- read.lua - reads several keys of one slot at one instant; changes nothing.
--
-- KEYS[n]  keys   any     what to read
-- ARGV[n]  query  string  what of each: `hash`, all of it; `fields`, and which of a hash; `largest`, and how many members of a
--                         sorted set, 0 for all; `newest`, and how many entries of a stream, and for each key the id to begin
--                         at, as XREVRANGE takes it
--
-- Reply     the server's epoch milliseconds, and for each key an array: fields with values; values, empty where there is none;
--           members with scores, the largest first; entries, the newest first
local keys = KEYS
local query = ARGV

local time = redis.call('TIME')
local found = { string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)) }
for index, key in ipairs(keys) do
  local values = {}
  if query[1] == 'hash' then
    values = redis.call('HGETALL', key)
  elseif query[1] == 'largest' then
    values = redis.call('ZREVRANGE', key, 0, query[2] - 1, 'WITHSCORES')
  elseif query[1] == 'newest' then
    values = redis.call('XREVRANGE', key, query[index + 2], '-', 'COUNT', query[2])
  else
    for place = 2, #query do
      values[place - 1] = redis.call('HGET', key, query[place]) or ''
    end
  end
  found[index + 1] = values
end
return found
