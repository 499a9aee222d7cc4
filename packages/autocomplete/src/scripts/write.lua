-- write.lua - puts and drops items of one shard, each with all of its rows.
--
-- KEYS[1]  index     hash     layout, current generation, settings of each, token of a rebuild
-- KEYS[2]  ops       zset     operation id to server milliseconds, of the last minute
-- KEYS[3]  live      set      ids that were written while a rebuild ran
-- KEYS[4]  aRows     zset     `suffix NUL kind id`
-- KEYS[5]  aRanked   zset     `prefix NUL rank rest NUL kind id`
-- KEYS[6]  aItems    hash     id to `revision NUL weight NUL starts NUL fold NUL text [NUL payload]`
-- KEYS[7]  bRows     zset     the same of the other generation
-- KEYS[8]  bRanked   zset     the same
-- KEYS[9]  bItems    hash     the same
-- ARGV[1]  op        string   operation id: sent again, nothing changes
-- ARGV[2]  token     string   the rebuild that fills the staged generation; empty: a live change, of the current
--                             generation and of a staged one
-- ARGV[3]  settings  string   by which the items were folded
-- ARGV[4]  staged    string   by which they were folded a second time; empty: they were not
-- ARGV[5]  keepMs    integer  how long staged data lives after this, milliseconds
-- ARGV[n]  changes   string   for each item: id, revision, weight (empty: as it was), `text [NUL payload]`, fold, starts
--                             (byte offsets with commas; empty: the item is dropped), second fold, second starts
--
-- Reply     {1, known, id, …}    done, now or by an earlier copy; how many items were there before (1 of an earlier copy);
--                                and those for which a higher revision is stored: they stay as they are
--           {2, settings, staged}  the generations have other settings; nothing changed
--           {3}                  the rebuild is over: another took its place, or it took too long; nothing changed
--           error KIT_LAYOUT     written by a newer version, or damaged; nothing changed
local index = KEYS[1]
local ops = KEYS[2]
local live = KEYS[3]
local aRows = KEYS[4]
local aRanked = KEYS[5]
local aItems = KEYS[6]
local bRows = KEYS[7]
local bRanked = KEYS[8]
local bItems = KEYS[9]
local op = ARGV[1]
local token = ARGV[2]
local settings = ARGV[3]
local staged = ARGV[4]
local keepMs = tonumber(ARGV[5])
local changes = { unpack(ARGV, 6) }
local stride = 8

-- Libraries

local a = { rows = aRows, ranked = aRanked, items = aItems }
local b = { rows = bRows, ranked = bRanked, items = bItems }
local current, other = openIndex(index, a, b)
if not current then return redis.error_reply(other) end
local isLost = not isStaged(other)
local hasLive = redis.call('SCARD', live) > 0
local isRepeat = isRepeated(ops, op)

-- Each generation that is written, with the place of its fold among the operands of an item.
local targets = {}
if token ~= '' then
  if isLost or other.token ~= token or other.settings ~= settings then return { 3 } end
  targets[1] = { generation = other, fold = 5 }
else
  if current.settings and current.settings ~= settings or not isLost and other.settings ~= settings and other.settings ~= staged then
    return { 2, current.settings or settings, not isLost and other.settings or '' }
  end
  targets[1] = { generation = current, fold = 5 }
  if not isLost then targets[2] = { generation = other, fold = other.settings == settings and 5 or 7 } end
end

local reply = { 1, isRepeat and 1 or 0 }
local isNew = not current.settings
current.settings = current.settings or settings
local hasChanged = false
for at = 1, #changes, stride do
  local id, revision, weight, tail = unpack(changes, at, at + 3)
  local isOvertaken = false
  for i, target in ipairs(targets) do
    local generation = target.generation
    local fold, starts = changes[at + target.fold - 1], changes[at + target.fold]
    local old = recordOf(generation, id)
    if old and tonumber(old.revision) > tonumber(revision) then
      isOvertaken = true
    elseif not isRepeat and not (token ~= '' and hasLive and redis.call('SISMEMBER', live, id) == 1) then
      if old and i == 1 then reply[2] = reply[2] + 1 end
      if starts == '' then
        hasChanged = dropItem(generation, id, old) or hasChanged
      else
        local record = { revision = revision, weight = tonumber(weight), starts = starts, fold = fold, tail = tail }
        putItem(generation, id, record, old)
        hasChanged = true
      end
      -- A drop counts too: the copy that the rebuild reads may be older.
      if i == 2 then redis.call('SADD', live, id) end
    end
  end
  if isOvertaken then reply[#reply + 1] = id end
end
if isRepeat then return reply end

if hasChanged then
  if isNew and token == '' then redis.call('HSET', index, 'layout', '1', 'current', 'a', 'a', settings) end
  remember(ops, op)
end
if not isLost then
  keepStaged(other, live, token ~= '' and keepMs or nil)
elseif other.token then
  redis.call('HDEL', index, 'staging')
end
return reply
