-- read.lua - reads several keys of one slot at one instant; changes nothing.
--
-- KEYS[n]  keys   any     what to read
-- ARGV[n]  query  string  what of each: `hash`, all of it; `fields`, and which of a hash; `largest`, and how many members of a
--                         sorted set, 0 for all; `newest`, and how many entries of a stream, and for each key the id to start
--                         at, as XREVRANGE needs it
--
-- Reply     the server's epoch milliseconds, and for each key an array: fields with values; values, empty where there is none;
--           members with scores, the largest first; entries, the newest first, of all streams about 4 MiB: one for which there is no
--           room has no fields, and is the last of its stream
local keys = KEYS
local query = ARGV

local time = redis.call('TIME')
-- The newest entries of a stream, at least one.
local function newest(key, from, count)
  local entries, room = {}, 4194304 / #keys
  while #entries < count do
    local page = redis.call('XREVRANGE', key, from, '-', 'COUNT', math.min(50, count - #entries))
    for _, entry in ipairs(page) do
      if room <= 0 then
        entries[#entries + 1] = { entry[1], {} }
        return entries
      end
      entries[#entries + 1] = entry
      for _, text in ipairs(entry[2]) do room = room - #text end
    end
    if #page < 50 then return entries end
    from = '(' .. page[50][1]
  end
  return entries
end

local found = { string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)) }
for index, key in ipairs(keys) do
  local values = {}
  if query[1] == 'hash' then
    values = redis.call('HGETALL', key)
  elseif query[1] == 'largest' then
    values = redis.call('ZREVRANGE', key, 0, query[2] - 1, 'WITHSCORES')
  elseif query[1] == 'newest' then
    values = newest(key, query[index + 2], tonumber(query[2]))
  else
    for place = 2, #query do
      values[place - 1] = redis.call('HGET', key, query[place]) or ''
    end
  end
  found[index + 1] = values
end
return found
