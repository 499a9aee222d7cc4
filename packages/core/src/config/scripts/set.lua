-- set.lua - writes a configuration, if the current version is the expected one, and notifies the readers.
--
-- KEYS[1]  entry       hash     layout, epoch, revision, at, op, author, value
-- KEYS[2]  history     list     the newest first: epoch, revision, at, op, author and value, separated by tabs
-- ARGV[1]  op          string   operation id: sent again, it changes nothing and gets the first reply
-- ARGV[2]  expected    string   `epoch:revision:at` of the entry; `none`: there must be none; empty: any
-- ARGV[3]  author      string   the author, for people; without control characters
-- ARGV[4]  value       string   JSON, so without tabs
-- ARGV[5]  maxHistory  integer  how many writes are kept, this one included, and searched for `op`
-- ARGV[6]  channel     string   where the write is published: `epoch:revision:at`
--
-- Reply     { 1, epoch, revision, at }  written, now or by an earlier repeat of this call
--           { 0, epoch, revision, at }  another version than expected is stored; { 0 }: none is; nothing changed
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local entry = KEYS[1]
local history = KEYS[2]
local op = ARGV[1]
local expected = ARGV[2]
local author = ARGV[3]
local value = ARGV[4]
local maxHistory = tonumber(ARGV[5])
local channel = ARGV[6]

-- Numbers of up to 16 digits, which Lua counts exactly.
local function isNumber(text) return text and #text <= 16 and string.find(text, '^%d+$') ~= nil end

local found = redis.call('HMGET', entry, 'layout', 'epoch', 'revision', 'at', 'op')
local layout, epoch, revision, at = found[1], found[2], found[3], found[4]
local isThere = layout or redis.call('EXISTS', entry) == 1
if isThere and not (layout == '1' and isNumber(epoch) and isNumber(revision) and isNumber(at)) then
  return redis.error_reply('KIT_LAYOUT the configuration was written by a newer version, or is damaged')
end
if isThere and found[5] == op then return { 1, epoch, revision, at } end
-- Read before the first write: a history of another type fails here, with nothing done.
for _, kept in ipairs(redis.call('LRANGE', history, 0, maxHistory - 1)) do
  local keptEpoch, keptRevision, keptAt, keptOp = string.match(kept, '^(%d+)\t(%d+)\t(%d+)\t([^\t]*)\t')
  if keptOp == op then return { 1, keptEpoch, keptRevision, keptAt } end
end

local actual = isThere and epoch .. ':' .. revision .. ':' .. at or 'none'
if expected ~= '' and expected ~= actual then return isThere and { 0, epoch, revision, at } or { 0 } end

local time = redis.call('TIME')
-- As text, since Lua prints numbers of this size with lost digits.
at = string.format('%.0f', tonumber(time[1]) * 1000000 + tonumber(time[2]))
epoch = isThere and epoch or at
revision = string.format('%.0f', isThere and tonumber(revision) + 1 or 1)
redis.call(
  'HSET', entry,
  'layout', '1', 'epoch', epoch, 'revision', revision, 'at', at, 'op', op, 'author', author, 'value', value
)
redis.call('LPUSH', history, table.concat({ epoch, revision, at, op, author, value }, '\t'))
redis.call('LTRIM', history, 0, maxHistory - 1)
-- A user that may not publish may still write: readers find the change at their next poll.
redis.pcall('PUBLISH', channel, epoch .. ':' .. revision .. ':' .. at)
return { 1, epoch, revision, at }
