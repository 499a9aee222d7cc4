-- suggest.lua - the items of an index by weight with a word that begins with a text; changes nothing.
--
-- KEYS[1]  index         hash  layout, settings, those of a rebuild and its token
-- KEYS[2]  rows          zset  `suffix NUL kind id`; alphabetical: with a tag before and the item behind
-- KEYS[3]  ranked        zset  `prefix NUL rank rest NUL kind id`
-- KEYS[4]  items         hash  id to `revision NUL weight NUL starts NUL fold NUL text [NUL payload]`
-- ARGV[1]  settings  string   by which the text was folded
-- ARGV[2]  prefix    string   the folded text
-- ARGV[3]  anchor    string   its first characters, as many as are ranked
-- ARGV[4]  limit     integer  how many items at most
--
-- Reply     {1, more, truncated, damaged, records, id, …}  the best first; 1: there are more; 1: better ones may have been
--                          missed; how many have rows and no record. The records are one text, with byte 01 between them,
--                          which none of them has: a client decodes it in a fraction of the time
--           {2, settings}  the index has other settings
--           {0}            there is no index
--           error KIT_LAYOUT  written by a newer version
local index = KEYS[1]
local rows = KEYS[2]
local ranked = KEYS[3]
local items = KEYS[4]
local settings = ARGV[1]
local prefix = ARGV[2]
local anchor = ARGV[3]
local limit = tonumber(ARGV[4])

local layout, stored = unpack(redis.call('HMGET', index, 'layout', 'settings'))
if not layout then return { 0 } end
if layout ~= '1' then return redis.error_reply('KIT_LAYOUT the index was written by a newer version') end
if stored ~= settings then return { 2, stored } end

-- The bounds of what one query reads.
local scan = math.max(64, limit)
local most = math.max(512, 4 * limit)
local ids, taken, records = {}, {}, {}
local truncated = 0

-- Adds the ids of rows in a range, each once, until there are more than the limit, or the range or the patience ends.
-- `rest` is what must follow in a row after `offset` bytes. Returns whether the range was read to its end.
local function collect(key, min, max, offset, rest)
  local left, size = most, limit + 1 - #ids
  if size <= 0 then return false end
  while left > 0 do
    local found = redis.call('ZRANGEBYLEX', key, min, max, 'LIMIT', 0, math.min(size, left))
    for i = 1, #found do
      local row = found[i]
      if rest == '' or string.sub(row, offset + 1, offset + #rest) == rest then
        local id = string.sub(row, string.find(row, '\0', offset + 1, true) + 2)
        if not taken[id] then
          taken[id] = true
          ids[#ids + 1] = id
          if #ids > limit then return false end
        end
      end
    end
    if #found < math.min(size, left) then return true end
    left = left - #found
    min = '(' .. found[#found]
    size = 128
  end
  truncated = 1
  return false
end

local function fetch(wanted)
  local found = redis.call('HMGET', items, unpack(wanted))
  for i, id in ipairs(wanted) do
    records[id] = found[i]
  end
end

-- Sorts ids by weight; equal ones keep their order. Those of the first `exact` come before all others.
local function rank(list, exact)
  local weights, places = {}, {}
  for i, id in ipairs(list) do
    weights[id] = tonumber(records[id] and string.match(records[id], '^%d+%z(%d+)') or -1)
    places[id] = i
  end
  table.sort(list, function(one, two)
    local isOne, isTwo = places[one] <= exact, places[two] <= exact
    if isOne ~= isTwo then return isOne end
    if weights[one] ~= weights[two] then return weights[one] > weights[two] end
    return places[one] < places[two]
  end)
end

-- Distinct ids of rows in their order, and how many of them are whole names that equal the text.
local function idsOf(found)
  local list, seen, exact = {}, {}, 0
  local whole = string.gsub(prefix, ' $', '') .. ' \0' .. '0'
  for _, row in ipairs(found) do
    local id = string.sub(row, string.find(row, '\0', 1, true) + 2)
    if not seen[id] then
      seen[id] = true
      list[#list + 1] = id
      if string.sub(row, 1, #whole) == whole then exact = exact + 1 end
    end
  end
  return list, exact
end

local function take(list)
  for _, id in ipairs(list) do
    if not taken[id] then
      taken[id] = true
      ids[#ids + 1] = id
    end
  end
end

-- No byte of UTF-8 is FF.
local from, to = '[' .. prefix, '(' .. prefix .. '\255'
local more = false
if prefix == anchor then
  -- The rank of a whole name that equals the prefix is above all others.
  more = not collect(ranked, '[' .. anchor .. '\0', '(' .. anchor .. '\1', #anchor + 8, '')
else
  local found = redis.call('ZRANGEBYLEX', rows, from, to, 'LIMIT', 0, scan + 1)
  if #found <= scan then
    local list, exact = idsOf(found)
    if #list > 0 then fetch(list) end
    rank(list, exact)
    take(list)
    more = #ids > limit
  else
    local whole = string.gsub(prefix, ' $', '') .. ' \0'
    local same = redis.call('ZRANGEBYLEX', rows, '[' .. whole .. '0', '(' .. whole .. '1', 'LIMIT', 0, scan + 1)
    local list, exact = idsOf(same)
    if #list > 0 then fetch(list) end
    rank(list, exact)
    take(list)
    if #same > scan then truncated = 1 end
    local rest = string.sub(prefix, #anchor + 1)
    more = not collect(ranked, '[' .. anchor .. '\0', '(' .. anchor .. '\1', #anchor + 8, rest)
    if truncated == 1 and #ids < limit then
      local others, first = idsOf(found)
      fetch(others)
      rank(others, first)
      take(others)
    end
  end
end

local last = math.min(limit, #ids)
local missing = {}
for i = 1, last do
  if records[ids[i]] == nil then missing[#missing + 1] = ids[i] end
end
if #missing > 0 then fetch(missing) end
local texts, damaged = {}, 0
local reply = { 1, more and 1 or 0, truncated, 0, '' }
for i = 1, last do
  local record = records[ids[i]]
  if record then
    texts[#texts + 1] = record
    reply[#reply + 1] = ids[i]
  else
    damaged = damaged + 1
  end
end
reply[4], reply[5] = damaged, table.concat(texts, '\1')
return reply
