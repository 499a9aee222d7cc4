-- items.lua - the generations of an index, and what finds an item in one.
--
-- Defines layoutError, opError, mostWeight, openIndex, isStaged, markOf, isRepeated, remember, recordOf, putItem, dropItem, removeDropped,
-- keepStaged
--
-- All inputs are parameters. A generation is { rows, ranked, items, settings, token }: three keys, the settings by which
-- they are written, and of the staged one the token of the rebuild that fills it.
local layoutError = 'KIT_LAYOUT a newer version wrote it'
local opError = 'ERR the op belongs to another change. Pass a new op'
local mostWeight = 9999999999999
local opsMs = 60000
local mostOps = 10000

-- Reads the settings of both generations; returns an error if they cannot be read. The current one has none if the index was
-- never written. Reading the sizes fails on a key of another type before anything is changed.
local function openIndex(index, current, staged)
  local layout, settings, stagedSettings, token =
    unpack(redis.call('HMGET', index, 'layout', 'settings', 'staged', 'staging'))
  if layout and layout ~= '1' then return layoutError end
  current.settings, staged.settings, staged.token = settings or nil, stagedSettings or nil, token or nil
  for _, generation in ipairs({ current, staged }) do
    local size = redis.call('ZCARD', generation.rows) + redis.call('ZCARD', generation.ranked)
    if redis.call('HLEN', generation.items) + size > 0 and not layout then return layoutError end
  end
  return nil
end

-- Whether a rebuild fills the generation: its marker is one of the items, and expires with them.
local function isStaged(generation)
  return generation.token ~= nil and redis.call('HGET', generation.items, '') == generation.token
end

-- A number below 1 that differs for most changes, and is exact behind the milliseconds of an instant.
local function markOf(...)
  return tonumber(string.sub(redis.sha1hex(table.concat({ ... }, '\0')), 1, 3), 16) / 4096
end

-- Whether the operation was done within the last minute; nil if it was another change.
local function isRepeated(ops, op, mark)
  local score = redis.call('ZSCORE', ops, op)
  if score and score % 1 ~= mark then return nil end
  return score ~= false
end

-- Records an operation that changed something.
local function remember(ops, op, mark)
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  -- Added first: a script must not touch a key that it has emptied, since it fails there while its slot moves.
  redis.call('ZADD', ops, string.format('%.17g', now + mark), op)
  redis.call('ZREMRANGEBYSCORE', ops, '-inf', string.format('(%.0f', now - opsMs))
  redis.call('ZREMRANGEBYRANK', ops, 0, -mostOps - 1)
  redis.call('PEXPIRE', ops, opsMs)
end

-- The ids, and the rows of both kinds, that a script removes of a generation at its end.
local function droppedOf(generation)
  generation.dropped = generation.dropped or { ids = {}, rows = {}, ranked = {} }
  return generation.dropped
end

-- The record of an item, or nil.
local function recordOf(generation, id)
  if droppedOf(generation).ids[id] then return nil end
  local found = redis.call('HGET', generation.items, id)
  if not found then return nil end
  local revision, weight, starts, fold, tail = string.match(found, '^(%d+)%z(%d+)%z([%d,]*)%z([^%z]*)%z(.*)$')
  if not revision then return nil end
  return { revision = revision, weight = tonumber(weight), starts = starts, fold = fold, tail = tail }
end

-- The rank of a weight, as seven characters from ! to ~ whose order in bytes is that of relevance: first the name that
-- equals the query, then the highest weight. Decimal digits would take thirteen characters in each row.
local function rankOf(weight, isExact)
  local left = mostWeight - weight + (isExact and 0 or mostWeight + 1)
  local digits = {}
  for place = 7, 1, -1 do
    local digit = left % 94
    digits[place] = string.char(33 + digit)
    left = (left - digit) / 94
  end
  return table.concat(digits)
end

local function isByWeight(generation)
  return string.find(generation.settings, 'order=weight', 1, true) ~= nil
end

-- The rows that find an item by its text, and those that rank it. Alphabetical rows are all that a reader needs.
local function rowsOf(generation, id, record)
  local settings = generation.settings
  local isRanked = isByWeight(generation)
  local tag = isRanked and '' or string.sub(redis.sha1hex(settings), 1, 8)
  local tail = string.find(record.tail, '\0', 1, true) and record.tail or record.tail .. '\0'
  local content = isRanked and '' or '\0' .. string.format('%.0f', record.weight) .. '\0' .. tail
  local hasTop = string.find(settings, 'empty=top', 1, true)
  local rankedLength = tonumber(string.match(settings, 'ranked=(%d+)'))
  local exact, other = rankOf(record.weight, true), rankOf(record.weight, false)
  local rows, ranked = {}, {}
  for start in string.gmatch(record.starts, '%d+') do
    local suffix = string.sub(record.fold, start + 1)
    local row = suffix .. '\0' .. (start == '0' and '0' or '1') .. id
    rows[#rows + 1] = tag .. row .. content
    if isRanked then
      if hasTop and start == '0' then ranked[#ranked + 1] = '\0' .. other .. row end
      local at = 0
      for _ = 1, rankedLength do
        local lead = string.byte(suffix, at + 1)
        if not lead then break end
        at = at + (lead < 0x80 and 1 or lead < 0xE0 and 2 or lead < 0xF0 and 3 or 4)
        local prefix = string.sub(suffix, 1, at)
        local isExact = start == '0' and string.gsub(prefix, ' $', '') .. ' ' == string.match(suffix, '^[^\2]*')
        ranked[#ranked + 1] = prefix .. '\0' .. (isExact and exact or other) .. string.sub(row, at + 1)
      end
    end
  end
  return rows, ranked
end

local function addRows(key, rows, dropped)
  local scored = {}
  for i, row in ipairs(rows) do
    scored[2 * i - 1], scored[2 * i] = 0, row
    dropped[row] = nil
  end
  if #rows > 0 then redis.call('ZADD', key, unpack(scored)) end
end

local function store(generation, id, record)
  local weight = string.format('%.0f', record.weight)
  local text = table.concat({ record.revision, weight, record.starts, record.fold, record.tail }, '\0')
  redis.call('HSET', generation.items, id, text)
end

-- Notes an item and its rows for `removeDropped`. Returns whether it was there.
local function dropItem(generation, id, old)
  if not old then return false end
  -- Removes nothing. At maxmemory Redis allows writes in a script after one that can only free memory.
  redis.call('ZREM', generation.rows, '')
  local dropped = droppedOf(generation)
  local rows, ranked = rowsOf(generation, id, old)
  dropped.ids[id] = true
  for _, row in ipairs(rows) do dropped.rows[row] = true end
  for _, row in ipairs(ranked) do dropped.ranked[row] = true end
  return true
end

local function inBatches(members, remove)
  local list = {}
  for member in pairs(members) do list[#list + 1] = member end
  for start = 1, #list, 5000 do remove(unpack(list, start, math.min(start + 4999, #list))) end
end

-- Comes last: it may empty a key, and while the slot moves to another node, a script fails at a key that is gone.
local function removeDropped(generation)
  local dropped = droppedOf(generation)
  inBatches(dropped.ids, function(...) redis.call('HDEL', generation.items, ...) end)
  inBatches(dropped.rows, function(...) redis.call('ZREM', generation.rows, ...) end)
  inBatches(dropped.ranked, function(...) redis.call('ZREM', generation.ranked, ...) end)
end

-- Stores an item with its rows in place of what it was; without a weight it keeps the one that it had.
local function putItem(generation, id, record, old)
  record.weight = record.weight or (old and old.weight) or 0
  local isSame = old and old.fold == record.fold and old.starts == record.starts and old.weight == record.weight
  if isSame and (isByWeight(generation) or old.tail == record.tail) then return store(generation, id, record) end
  dropItem(generation, id, old)
  store(generation, id, record)
  local dropped = droppedOf(generation)
  local rows, ranked = rowsOf(generation, id, record)
  dropped.ids[id] = nil
  addRows(generation.rows, rows, dropped.rows)
  addRows(generation.ranked, ranked, dropped.ranked)
end

-- Sets the life of staged data; without a time, to that of its items: a live change must not keep the data of a dead
-- rebuild.
local function keepStaged(generation, live, keepMs)
  local ms = keepMs or math.max(1, redis.call('PTTL', generation.items))
  for _, key in ipairs({ generation.rows, generation.ranked, generation.items, live }) do
    redis.call('PEXPIRE', key, ms)
  end
end
