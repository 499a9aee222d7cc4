-- state.lua - the state of a chat, for all scripts: its record, its oldest message, and how messages are dropped.
--
-- Defines clockSkewMs, newerLayout, readClock, int, partsOf, messageAfter, lastWhere, openChat, saveChat, applyAge, trim,
-- announce, ownField, ownAfter, unreadOf
--
-- All inputs are parameters. A refusal is a number: 1 unknown chat, 2 not a member, 3 too large, 4 full, 5 duplicate,
-- 6 beyond the head, 7 forked; or the error reply `newerLayout`.

local newerLayout = { err = 'KIT_LAYOUT the chat was written by a newer version' }

-- The clocks of servers that replace each other may differ by this much.
local clockSkewMs = 10000

-- The server's time in epoch milliseconds.
local function readClock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A whole number as text. tostring would round from 1e14 on.
local function int(number)
  return string.format('%.0f', number)
end

-- Sequence and time of a message's id.
local function partsOf(id)
  local sequence, at = string.match(id, '^(%d+)%-(%d+)$')
  return tonumber(sequence), tonumber(at)
end

-- The first message after a sequence: its sequence, time and fields. Nil: there is none.
local function messageAfter(messages, sequence)
  local found = redis.call('XRANGE', messages, int(sequence + 1), '+', 'COUNT', 1)[1]
  if not found then return nil end
  local first, at = partsOf(found[1])
  return first, at, found[2]
end

-- The last message in (low, high] for which `holds` is true; low if there is none. It must hold for a prefix of these messages.
-- Gallops from low, because usually few messages are dropped, then bisects.
local function lastWhere(messages, low, high, holds)
  local step, isGalloping = 1, true
  while low < high do
    local probe = isGalloping and math.min(low + step, high) or low + math.ceil((high - low) / 2)
    local sequence, at, fields = messageAfter(messages, probe - 1)
    if sequence and sequence <= high and holds(at, fields) then
      low = sequence
      step = step * 2
    else
      high = probe - 1
      isGalloping = false
    end
  end
  return low
end

-- The bytes of all messages before one; 0 if bytes are not counted.
local function bytesBefore(fields)
  return (tonumber(fields[6] or nil) or 0) - #fields[4]
end

-- The record of a chat whose entry in `heads` was evicted. Sequences never restart: the stream remembers its last id.
local function recover(chat, messages, positions)
  local info = redis.pcall('XINFO', 'STREAM', messages)
  chat.isRecovered = true
  if info.err then
    chat.isLost = true
    local highest = positions and redis.call('ZREVRANGE', positions, 0, 0, 'WITHSCORES')[2]
    chat.head = tonumber(highest or 0)
    chat.floor = chat.head
    return
  end
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      chat.head, chat.headAt = partsOf(info[i + 1])
    end
  end
  local first, _, fields = messageAfter(messages, 0)
  chat.floor = first and first - 1 or chat.head
  if chat.maxBytes > 0 and first then
    chat.floorBytes = bytesBefore(fields)
    local last = redis.call('XREVRANGE', messages, '+', '-', 'COUNT', 1)[1]
    chat.bytes = tonumber(last[2][6] or nil) or 0
  end
end

-- The field of `meta` with a member's own messages after its position: `FIRST-LAST,…`.
local function ownField(user)
  return 'own:' .. user
end

-- The stored chat, or nil and a refusal. Scripts that write pass `positions`. With `owners`, a list of such fields, `own` has their
-- values.
local function openChat(name, meta, heads, messages, positions, owners)
  local stored = redis.call('HMGET', meta, 'layout', 'epoch', 'config', 'losses', 'createdAt', unpack(owners or {}))
  local layout, id, config, losses = stored[1], stored[2], stored[3], stored[4]
  if not layout then return nil, 1 end
  if layout ~= '1' then return nil, newerLayout end
  local count, ageMs, maxBytes, readByAll, refuses, isOpen, maxBody, lagMessages, lagAge, dedupeMs =
    string.match(config, '^(%d+) (%d+) (%d+) (%d) (%d) (%d) (%d+) (%d+) (%d+) (%d+)$')
  local records = redis.call('HMGET', heads, name, '')
  local head, floor, headAt, bytes, floorBytes =
    string.match(records[1] or '', '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  local chat = {
    name = name,
    id = id,
    epoch = losses and id .. '.' .. losses or id,
    count = tonumber(count),
    ageMs = tonumber(ageMs),
    maxBytes = tonumber(maxBytes),
    readByAll = readByAll == '1',
    refuses = refuses == '1',
    isOpen = isOpen ~= '0',
    isMailbox = isOpen == '2',
    maxBody = tonumber(maxBody),
    lagMessages = tonumber(lagMessages),
    lagAge = tonumber(lagAge),
    dedupeMs = tonumber(dedupeMs),
    head = tonumber(head),
    floor = tonumber(floor),
    headAt = tonumber(headAt or 0),
    bytes = tonumber(bytes or 0),
    floorBytes = tonumber(floorBytes or 0),
    createdAt = tonumber(stored[5] or 0),
    own = { unpack(stored, 6) },
    subscribedUntil = tonumber(records[2] or 0),
  }
  if not head then recover(chat, messages, positions) end
  return chat
end

-- Stores the changes. If only positions of the chat were left, it starts another epoch.
local function saveChat(chat, meta, heads)
  redis.call(
    'HSET',
    heads,
    chat.name,
    string.format('%.0f %.0f %.0f %.0f %.0f', chat.head, chat.floor, chat.headAt, chat.bytes, chat.floorBytes)
  )
  if chat.isLost then redis.call('HINCRBY', meta, 'losses', 1) end
end

-- Moves the floor past messages that are too old. Readers do this for their own view.
local function applyAge(chat, messages, now)
  local oldest = now - chat.ageMs
  if chat.ageMs == 0 or chat.floor >= chat.head then return end
  if chat.headAt < oldest then
    chat.floor = chat.head
  else
    chat.floor = lastWhere(messages, chat.floor, chat.head, function(at)
      return at < oldest
    end)
  end
end

-- Drops messages by the chat's retention, and returns whether the floor moved. The caller saves. The member `leaving` keeps no message.
local function trim(chat, messages, positions, now, leaving)
  local before = chat.floor
  applyAge(chat, messages, now)
  if chat.readByAll then
    local first = redis.call('ZRANGE', positions, 0, leaving and 1 or 0, 'WITHSCORES')
    local slowest = tonumber(first[first[1] == leaving and 4 or 2] or nil)
    if slowest and slowest > chat.floor then chat.floor = math.min(slowest, chat.head) end
  end
  if chat.count > 0 and not chat.refuses then chat.floor = math.max(chat.floor, chat.head - chat.count) end
  if chat.maxBytes > 0 then
    if not chat.refuses and chat.bytes - chat.floorBytes > chat.maxBytes then
      chat.floor = lastWhere(messages, chat.floor, chat.head, function(_, fields)
        return chat.bytes - bytesBefore(fields) > chat.maxBytes
      end)
    end
    if chat.floor > before then
      local first, _, fields = messageAfter(messages, chat.floor)
      chat.floorBytes = first and bytesBefore(fields) or chat.bytes
    end
  end
  if chat.floor == before then return false end
  -- XTRIM drops whole nodes of the stream, so a try at each call would be useless.
  if chat.maxBytes > 0 or math.floor(chat.floor / 64) > math.floor(before / 64) then
    redis.call('XTRIM', messages, 'MAXLEN', '~', int(chat.head - chat.floor))
  end
  return true
end

-- How many of the messages after a sequence are the member's own, according to `own`.
local function ownAfter(chat, sequence, own)
  local count = 0
  for first, last in string.gmatch(own or '', '(%d+)%-(%d+)') do
    count = count + math.max(0, math.min(last, chat.head) - math.max(first - 1, sequence))
  end
  return count
end

-- How many messages of other members this member has not acknowledged.
local function unreadOf(chat, position, own)
  local base = math.max(position, chat.floor)
  return math.max(0, chat.head - base - ownAfter(chat, base, own))
end

-- Announces a change to readers and waiters: `s` the first of the sent sequences, `j` members that joined, `l` members that
-- left, `d` members of a deleted chat, `r` a sequence that a worker returned, `p` a member, its position, and 1 if all members may
-- see it. Returns the id of the first entry.
local function announce(activity, name, kind, values)
  local firstId
  for first = 1, #values, 200 do
    local fields = { 'c', name }
    for i = first, math.min(first + 199, #values) do
      fields[#fields + 1] = kind
      fields[#fields + 1] = values[i]
    end
    local id = redis.call('XADD', activity, 'MAXLEN', '~', 4096, '*', unpack(fields))
    firstId = firstId or id
  end
  return firstId
end
