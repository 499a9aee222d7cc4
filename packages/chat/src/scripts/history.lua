-- history.lua - reads a page of a chat's messages; changes nothing.
--
-- KEYS[1]  meta      hash     layout, epoch, settings
-- KEYS[2]  heads     hash     chat to `head floor headAt bytes floorBytes`
-- KEYS[3]  messages  stream   the messages
-- KEYS[4]  member    hash     the user's chats
-- ARGV[1]  chat      string   its name
-- ARGV[2]  user      string   the member that reads, and what it may see; empty: all that is kept
-- ARGV[3]  mode      string   `before`, `after` or `around` a sequence, `at` a time
-- ARGV[4]  anchor    integer  the sequence, or epoch milliseconds
-- ARGV[5]  limit     integer  how many messages at most
-- ARGV[6]  maxBytes  integer  how many bytes of bodies at most; one message is given in any case
--
-- Reply     {0, head, floor, entries}  of the stream in order of sequence, packed; nothing can be seen up to `floor`
--           {1} {2}  no such chat; no member
--           error KIT_LAYOUT  written by a newer version
local meta = KEYS[1]
local heads = KEYS[2]
local messages = KEYS[3]
local member = KEYS[4]
local chat = ARGV[1]
local user = ARGV[2]
local mode = ARGV[3]
local anchor = tonumber(ARGV[4])
local limit = tonumber(ARGV[5])
local maxBytes = tonumber(ARGV[6])

-- Libraries

local state, refusal = openChat(chat, meta, heads, messages)
if refusal == newerLayout then return newerLayout end
if not state then return { refusal } end
applyAge(state, messages, readClock())
local floor = state.floor
if user ~= '' then
  local from, epoch = string.match(redis.call('HGET', member, chat) or '', '^%d+ (%d+) %S+ (.*)$')
  if epoch ~= state.id then return { 2 } end
  floor = math.max(floor, tonumber(from))
end

local bytesLeft = maxBytes
local count = 0

-- Reads from a sequence, backwards or forwards, in steps that stay within the bytes.
local function take(start, isBackwards, most)
  local found = {}
  while #found < most do
    local step = math.min(most - #found, 50)
    local page
    if isBackwards then
      page = start > floor and redis.call('XREVRANGE', messages, int(start), int(floor + 1), 'COUNT', step) or {}
    else
      page = redis.call('XRANGE', messages, int(math.max(start, floor + 1)), '+', 'COUNT', step)
    end
    for _, entry in ipairs(page) do
      local size = #entry[2][4]
      if count > 0 and bytesLeft < size then return found end
      bytesLeft = bytesLeft - size
      count = count + 1
      found[#found + 1] = entry
    end
    if #page < step then return found end
    start = partsOf(page[#page][1]) + (isBackwards and -1 or 1)
  end
  return found
end

local older, newer = {}, {}
if mode == 'before' then
  older = take(math.min(anchor - 1, state.head), true, limit)
elseif mode == 'around' then
  newer = take(anchor, false, math.ceil(limit / 2))
  older = take(math.min(anchor - 1, state.head), true, limit - #newer)
elseif mode == 'after' then
  newer = take(anchor + 1, false, limit)
else
  local before = lastWhere(messages, floor, state.head, function(at)
    return at < anchor
  end)
  newer = take(before + 1, false, limit)
end

local found = {}
for i = #older, 1, -1 do
  found[#found + 1] = older[i]
end
for _, entry in ipairs(newer) do
  found[#found + 1] = entry
end
return { 0, state.head, floor, cmsgpack.pack(found) }
