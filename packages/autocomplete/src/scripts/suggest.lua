-- suggest.lua - the items with words that start with some texts.
--
-- KEYS[1]  index         hash  layout, settings, those of a rebuild and its token
-- KEYS[2]  rows          zset  `suffix NUL kind id`; alphabetical: with a tag before and the item behind
-- KEYS[3]  ranked        zset  `prefix NUL rank rest NUL kind id`
-- KEYS[4]  items         hash  id to `revision NUL weight NUL starts NUL fold NUL text [NUL payload]`
-- ARGV[1]  settings  string   by which the texts were folded
-- ARGV[n]  texts     string   `prefix anchor limit` of each: the text, folded; its first characters, as many as are ranked; and how
--                             many items at most. Rows without a limit come before a single text and are words, each with
--                             a space behind it if it is complete: then the items have all of these words. Without them the
--                             items continue as the text does
--
-- Reply     {1, found, …}  for each text {more, truncated, damaged, records, ids}, the best first; 1: there are more; 1:
--                          better ones may have been missed; how many have rows and no record. Records and ids are a text
--                          each, with byte 01 between them, which none has: a client decodes it in a fraction of the time
--           {2, settings}  the index has other settings
--           {0}            there is no index
--           error KIT_LAYOUT  written by a newer version
local index = KEYS[1]
local rows = KEYS[2]
local ranked = KEYS[3]
local items = KEYS[4]
local settings = ARGV[1]
local texts = { unpack(ARGV, 2) }

local layout, stored = unpack(redis.call('HMGET', index, 'layout', 'settings'))
if not layout then return { 0 } end
if layout ~= '1' then return redis.error_reply('KIT_LAYOUT a newer version wrote it') end
if stored ~= settings then return { 2, stored } end

-- The reply for one text.
local function found(ids, limit, more, truncated)
  local last = math.min(limit, #ids)
  local records = last > 0 and redis.call('HMGET', items, unpack(ids, 1, last)) or {}
  local damaged = 0
  for i = last, 1, -1 do
    if not records[i] then
      table.remove(records, i)
      table.remove(ids, i)
      damaged = damaged + 1
    end
  end
  return { more and 1 or 0, truncated, damaged, table.concat(records, '\1'), table.concat(ids, '\1', 1, last - damaged) }
end

-- Usually a text is ranked, and no item has several of its first rows: then one range is the answer, in order.
local function byRank(anchor, limit)
  local first = redis.call('ZRANGEBYLEX', ranked, '[' .. anchor .. '\0', '(' .. anchor .. '\0\255', 'LIMIT', 0, limit + 1)
  local ids, taken = {}, {}
  local offset = #anchor + 9
  for i = 1, #first do
    local id = string.sub(first[i], string.find(first[i], '\0', offset, true) + 2)
    if taken[id] then return nil end
    taken[id], ids[i] = true, id
  end
  return found(ids, limit, #ids > limit, 0)
end

-- Any other text.
local function search(prefix, anchor, limit, words)
  -- The limits of what one query reads.
  local most = math.max(512, 4 * limit)
  local scan = math.max(64, limit)
  -- For several words each record is also checked.
  if #words > 0 then
    most = math.max(256, limit)
    scan = most
  end
  local ids, taken, records = {}, {}, {}
  local truncated = 0
  local whole = string.gsub(prefix, ' $', '') .. ' '

  -- The range of a sorted set that starts with a text. No byte of UTF-8 is FF.
  local function bounds(text)
    return '[' .. text, '(' .. text .. '\255'
  end

  -- For several words the rarest is searched, and the others in its results.
  local lead = prefix
  local fewest = nil
  local parts = {}
  for _, word in ipairs(words) do
    local text, isWhole = string.gsub(word.text, ' $', '')
    parts[#parts + 1] = { text = text, isWhole = isWhole == 1 }
    local count = redis.call('ZLEXCOUNT', rows, bounds(text))
    if not fewest or count < fewest then
      fewest, lead, anchor = count, text, word.anchor
    end
  end

  local function fetch(wanted)
    if #wanted == 0 then return end
    local found = redis.call('HMGET', items, unpack(wanted))
    for i, id in ipairs(wanted) do
      records[id] = found[i]
    end
  end

  -- Whether a word of an item starts with a word of the query, and ends with it if that is complete.
  local function hasWord(starts, fold, part)
    for start in string.gmatch(starts, '%d+') do
      local behind = start + #part.text + 1
      if string.sub(fold, start + 1, behind - 1) == part.text then
        if not part.isWhole or not string.find(fold, '^[a-z0-9\128-\255]', behind) then return true end
      end
    end
    return false
  end

  -- Whether an item has all words of the query; its record was fetched, unless there are none.
  local function isMatch(id)
    local record = records[id]
    if #parts == 0 or not record then return true end
    -- Most items lack a word anywhere in the text, which is quickly found.
    for _, part in ipairs(parts) do
      if not string.find(record, part.text, 1, true) then return false end
    end
    local starts, fold = string.match(record, '^%d+%z%d+%z([%d,]*)%z([^%z]*)%z')
    for _, part in ipairs(parts) do
      if not hasWord(starts or '', fold or '', part) then return false end
    end
    return true
  end

  -- Adds the ids of rows in a range, each once, until there are more than the limit, or the range or the read limit ends.
  -- `rest` is what must follow in a row after `offset` bytes. Returns whether the range was read to its end.
  local function collect(key, min, max, offset, rest)
    local left, size = most, limit + 1 - #ids
    if size <= 0 then return false end
    while left > 0 do
      local found = redis.call('ZRANGEBYLEX', key, min, max, 'LIMIT', 0, math.min(size, left))
      local list = {}
      for i = 1, #found do
        local row = found[i]
        if rest == '' or string.sub(row, offset + 1, offset + #rest) == rest then
          local id = string.sub(row, string.find(row, '\0', offset + 1, true) + 2)
          if not taken[id] then
            taken[id] = true
            local target = #parts == 0 and ids or list
            target[#target + 1] = id
            if #ids > limit then return false end
          end
        end
      end
      fetch(list)
      for _, id in ipairs(list) do
        if isMatch(id) then ids[#ids + 1] = id end
        if #ids > limit then return false end
      end
      if #found < math.min(size, left) then return true end
      left = left - #found
      min = '(' .. found[#found]
      size = 128
    end
    truncated = 1
    return false
  end

  -- Takes the distinct ids of rows that match: whole names that equal the text first, then by weight, then as the rows come.
  local function take(found)
    local all, list, weights, places, isExact = {}, {}, {}, {}, {}
    for _, row in ipairs(found) do
      local id = string.sub(row, string.find(row, '\0', 1, true) + 2)
      if not taken[id] then
        taken[id] = true
        all[#all + 1] = id
      end
    end
    fetch(all)
    for _, id in ipairs(all) do
      if isMatch(id) then list[#list + 1] = id end
    end
    for i, id in ipairs(list) do
      local weight, fold = string.match(records[id] or '', '^%d+%z(%d+)%z[%d,]*%z([^%z\2]*)')
      weights[id], places[id], isExact[id] = tonumber(weight or -1), i, fold == whole
    end
    table.sort(list, function(one, two)
      if isExact[one] ~= isExact[two] then return isExact[one] end
      if weights[one] ~= weights[two] then return weights[one] > weights[two] end
      return places[one] < places[two]
    end)
    for _, id in ipairs(list) do
      ids[#ids + 1] = id
    end
  end

  local more = false
  local min, max = bounds(anchor .. '\0')
  if lead == anchor and #parts == 0 then
    -- The rank of a whole name that equals the prefix is above all others.
    more = not collect(ranked, min, max, #anchor + 8, '')
  else
    local from, to = bounds(lead)
    local found = redis.call('ZRANGEBYLEX', rows, from, to, 'LIMIT', 0, scan + 1)
    if #found <= scan then
      take(found)
      more = #ids > limit
    else
      local same = redis.call('ZRANGEBYLEX', rows, '[' .. whole .. '\0' .. '0', '(' .. whole .. '\0' .. '1', 'LIMIT', 0, scan + 1)
      take(same)
      if #same > scan then truncated = 1 end
      more = not collect(ranked, min, max, #anchor + 8, string.sub(lead, #anchor + 1))
      if truncated == 1 and #ids < limit then
        if #parts > 0 then
          -- All words are common: at least names with the words in this order are found.
          from, to = bounds(prefix)
          found = redis.call('ZRANGEBYLEX', rows, from, to, 'LIMIT', 0, 64)
        end
        take(found)
      end
    end
  end
  return found(ids, limit, more, truncated)
end

local words, reply = {}, { 1 }
for at = 1, #texts, 3 do
  local prefix, anchor, limit = unpack(texts, at, at + 2)
  if limit == '' then
    words[#words + 1] = { text = prefix, anchor = anchor }
  else
    limit = tonumber(limit)
    local answer = prefix == anchor and #words == 0 and byRank(anchor, limit)
    reply[#reply + 1] = answer or search(prefix, anchor, limit, words)
  end
end
return reply
