-- write.lua - puts, drops and weighs items of a shard.
--
-- KEYS[1]  index         hash  layout, settings, those of a rebuild and its token
-- KEYS[2]  ops           zset  operation id to server milliseconds, of the last minute
-- KEYS[3]  live          set   ids that were written while a rebuild ran
-- KEYS[4]  rows          zset  `suffix NUL kind id`; alphabetical: with a tag before and the item behind
-- KEYS[5]  ranked        zset  `prefix NUL rank rest NUL kind id`
-- KEYS[6]  items         hash  id to `revision NUL weight NUL starts NUL fold NUL text [NUL payload]`
-- KEYS[7]  stagedRows    zset  rows of a rebuild
-- KEYS[8]  stagedRanked  zset  its ranked rows
-- KEYS[9]  stagedItems   hash  its items; the empty id has the token of the rebuild
-- ARGV[1]  op        string   operation id: sent again for the same change, nothing changes
-- ARGV[2]  token     string   the rebuild that fills the staged generation; empty: a live change, of the current
--                             generation and of a staged one
-- ARGV[3]  settings  string   by which the items were folded
-- ARGV[4]  staged    string   by which they were folded a second time; empty: they were not
-- ARGV[5]  keepMs    integer  how long staged data lives after this, milliseconds
-- ARGV[n]  changes   string   `id revision weight tail fold starts secondFold secondStarts` of each item: weight (empty: as it was; with
--                             a sign: so much is added, and all else is as it was), tail is its text, or text NUL payload; starts
--                             are byte offsets with commas (empty: the item is dropped)
--
-- Reply     {1, known, id, …}    done, now or by an earlier call; how many items were there before (1 of an earlier call);
--                                and those for which a higher revision is stored: they stay as they are
--           {2, settings, staged}  the generations have other settings; nothing changed
--           {3}                  the rebuild is over: another took its place, or it took too long; nothing changed
--           error ERR            the operation id is that of another change; nothing changed
--           error KIT_LAYOUT     written by a newer version, or damaged; nothing changed
local index = KEYS[1]
local ops = KEYS[2]
local live = KEYS[3]
local rows = KEYS[4]
local ranked = KEYS[5]
local items = KEYS[6]
local stagedRows = KEYS[7]
local stagedRanked = KEYS[8]
local stagedItems = KEYS[9]
local op = ARGV[1]
local token = ARGV[2]
local settings = ARGV[3]
local staged = ARGV[4]
local keepMs = tonumber(ARGV[5])
local changes = { unpack(ARGV, 6) }

-- Libraries

local current = { rows = rows, ranked = ranked, items = items }
local other = { rows = stagedRows, ranked = stagedRanked, items = stagedItems }
local problem = openIndex(index, current, other)
if problem then return redis.error_reply(problem) end
local isLost = not isStaged(other)
local hasLive = redis.call('SCARD', live) > 0
-- The mark of a single change, which its caller can repeat. A batch has an id of its own.
local function markOfCall()
  if #changes > 8 then return 0 end
  local id, _, weight, tail, _, starts = unpack(changes, 1, 6)
  return markOf(starts == '' and weight or 'put', id, tail)
end
local mark = markOfCall()
local isRepeat = isRepeated(ops, op, mark)
if isRepeat == nil then return redis.error_reply(opError) end

-- Each generation to be written, and whether its items are folded the second way.
local targets = {}
if token ~= '' then
  if isLost or other.token ~= token or other.settings ~= settings then return { 3 } end
  targets[1] = { generation = other }
else
  if current.settings and current.settings ~= settings or not isLost and other.settings ~= settings and other.settings ~= staged then
    return { 2, current.settings or settings, not isLost and other.settings or '' }
  end
  targets[1] = { generation = current }
  if not isLost then targets[2] = { generation = other, isSecond = other.settings ~= settings } end
end

local reply = { 1, isRepeat and 1 or 0 }
local isNew = not current.settings
current.settings = current.settings or settings
local hasChanged = false
for at = 1, #changes, 8 do
  local id, revision, weight, tail, fold, starts, secondFold, secondStarts = unpack(changes, at, at + 7)
  local isSuperseded = false
  for i, target in ipairs(targets) do
    local generation = target.generation
    if target.isSecond then fold, starts = secondFold, secondStarts end
    local old = recordOf(generation, id)
    if string.find(weight, '^[+-]') then
      -- An item that a rebuild has not read yet gets its weight from the rebuild's source.
      if old and not isRepeat then
        local sum = math.max(0, math.min(mostWeight, old.weight + weight))
        local record = { weight = sum, revision = old.revision, starts = old.starts, fold = old.fold, tail = old.tail }
        putItem(generation, id, record, old)
        if i == 1 then reply[2] = reply[2] + 1 end
        hasChanged = true
      end
    elseif old and tonumber(old.revision) > tonumber(revision) then
      isSuperseded = true
    elseif not isRepeat and not (token ~= '' and hasLive and redis.call('SISMEMBER', live, id) == 1) then
      if old and i == 1 then reply[2] = reply[2] + 1 end
      if starts == '' then
        hasChanged = dropItem(generation, id, old) or hasChanged
      else
        local record = { revision = revision, weight = tonumber(weight), starts = starts, fold = fold, tail = tail }
        putItem(generation, id, record, old)
        hasChanged = true
      end
      -- Also for a drop: the source of the rebuild may be older.
      if i == 2 then redis.call('SADD', live, id) end
    end
  end
  if isSuperseded then reply[#reply + 1] = id end
end
if isRepeat then return reply end

-- The switch compares this with what the rebuild has sent: a server that restarts may have lost the newest batches.
if token ~= '' then redis.call('HSET', index, 'batches', (tonumber(redis.call('HGET', index, 'batches')) or 0) + 1) end
if hasChanged or token ~= '' then
  if isNew and token == '' then redis.call('HSET', index, 'layout', '1', 'settings', settings) end
  remember(ops, op, mark)
end
if not isLost then
  keepStaged(other, live, token ~= '' and keepMs or nil)
elseif other.token then
  redis.call('HDEL', index, 'staging', 'staged', 'batches')
end
removeDropped(current)
removeDropped(other)
return reply
