-- release.lua - frees the chunks that every consumer has passed, and removes a file that all are done with.
--
-- Needs readClock, heldBytes, unlistContent, withBeginning
-- Defines releaseChunks, removeReleased
local keptSources = 10000

--- Appends the key-parts of freed chunks to `reply`, at most 200: `free` lists the others. All are freed at once, since no later commit may pass this file.
--- Adds to `released` what `removeReleased` removes of each key, and returns it.
local function releaseChunks(channel, files, sources, done, chunks, consumers, positions, free, file, reply, released)
  local facts = redis.call('HMGET', files, file .. ':state', file .. ':freed', file .. ':source', file .. ':chunks',
    file .. ':text', file .. ':crc', file .. ':lines', file .. ':codec', file .. ':stored', file .. ':sha256', file .. ':fault')
  local least, from, isDone, fields = math.huge, nil, true, {}
  local all = redis.call('HGETALL', consumers)
  for i = 1, #all, 2 do
    if tonumber(string.match(all[i + 1], ' (%d+)')) < tonumber(file) then
      local field = file .. ' ' .. all[i]
      local record = redis.call('HGET', positions, field)
      local chunk, state, position = string.match(record or '', '^%d+ (%d+) (%a+) (%S+)')
      if state ~= 'done' then isDone = false end
      if state ~= 'done' and tonumber(chunk or '0') < least then
        least, from = tonumber(chunk or '0'), position
      end
      fields[#fields + 1] = field
    end
  end
  -- Without a consumer nothing is freed: one may join.
  if #fields == 0 then return released end
  local function remove(key, member)
    local members = released[key] or {}
    released[key] = members
    members[#members + 1] = member
  end
  local freed = tonumber(facts[2])
  local last = math.min(least, tonumber(facts[4]))
  for ordinal = freed, last - 1 do
    local entry = redis.call('HGET', chunks, file .. ' ' .. ordinal)
    if entry then
      local part, size = string.match(entry, '^(%S+) (%d+)')
      remove('chunks', file .. ' ' .. ordinal)
      redis.call('HSET', free, part, heldBytes(tonumber(size)))
      if #reply <= 200 then reply[#reply + 1] = part end
    end
  end
  if last > freed then
    redis.call('HSET', files, file .. ':freed', last)
    -- The position of the slowest consumer is behind a line, so a new one can start there.
    if from then redis.call('HSET', files, file .. ':from', from) end
    redis.call('HSET', channel, 'trimmed', 1)
  end
  if not isDone or facts[1] ~= 'sealed' or last < tonumber(facts[4]) then return released end
  for _, field in ipairs(fields) do remove('positions', field) end
  for _, fact in ipairs({ 'name', 'source', 'codec', 'state', 'fence', 'op', 'at', 'chunks', 'freed', 'from', 'text', 'stored', 'lines', 'crc',
    'unit', 'sha256', 'fault' }) do
    remove('files', file .. ':' .. fact)
  end
  remove('live', file)
  redis.call('HSET', channel, 'trimmed', 1)
  -- If the file ended early, its source may be in the channel again, as another file.
  if facts[11] then return released end
  redis.call('HSET', sources, facts[3], table.concat({ file, facts[5], facts[6], facts[7], facts[8], facts[9], facts[10] or '' }, ' '))
  redis.call('ZADD', done, readClock(), facts[3])
  for _, source in ipairs(redis.call('ZRANGE', done, 0, -keptSources - 1)) do
    remove('done', source)
    remove('sources', source)
    withBeginning(unlistContent, sources, source)
  end
  return released
end

local function inBatches(members, remove)
  for start = 1, #(members or ''), 5000 do remove(unpack(members, start, math.min(start + 4999, #members))) end
end

--- Comes last: it may empty keys, and while the slot moves to another node, a script fails at a key that is gone.
local function removeReleased(files, live, sources, done, chunks, positions, released)
  inBatches(released.chunks, function(...) redis.call('HDEL', chunks, ...) end)
  inBatches(released.positions, function(...) redis.call('HDEL', positions, ...) end)
  inBatches(released.files, function(...) redis.call('HDEL', files, ...) end)
  inBatches(released.sources, function(...) redis.call('HDEL', sources, ...) end)
  inBatches(released.live, function(...) redis.call('ZREM', live, ...) end)
  inBatches(released.done, function(...) redis.call('ZREM', done, ...) end)
end
