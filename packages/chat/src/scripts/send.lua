-- send.lua - appends messages to a chat, each once even if it is sent again.
--
-- KEYS[1]  meta        hash     layout, epoch, settings
-- KEYS[2]  heads       hash     chat to `head floor headAt bytes floorBytes`
-- KEYS[3]  messages    stream   the messages
-- KEYS[4]  positions   zset     member to position
-- KEYS[5]  activity    stream   what changed in the shard
-- KEYS[6]  sentEven    hash     sender and client id to `sequence at`; the empty field: the number of its window; name of a
--                               caller to `number codes` of its last call that had a refusal
-- KEYS[7]  sentOdd     hash     the same for windows of odd numbers
-- KEYS[n]  members     hash     for each message its sender's chats: chat to `position from joinId epoch`
-- ARGV[1]  chat        string   its name
-- ARGV[2]  call        string   name of the caller, a blank, and the number of its call, which grows
-- ARGV[n]  items       string   `from clientId kind body` of each message: its sender; kind of the body, `s`, `j` or `x`
--
-- Reply     {{code, sequence, at, …}, {member, position, …}}  for each message 0: sent; 5: it was sent before; 2: the sender
--                      is no member; 3: larger than `sequence` bytes; 4: the chat is full. Then members that lag too far
--           {{1}}     no such chat
--           error KIT_LAYOUT  written by a newer version
local meta = KEYS[1]
local heads = KEYS[2]
local messages = KEYS[3]
local positions = KEYS[4]
local activity = KEYS[5]
local sentEven = KEYS[6]
local sentOdd = KEYS[7]
local members = { unpack(KEYS, 8) }
local chat = ARGV[1]
local call = ARGV[2]
local items = { unpack(ARGV, 3) }
-- The maximum number of runs of own messages that are counted for one member.
local mostStretches = 256
-- Above about 2^53, neither Lua nor JavaScript counts exactly.
local mostMessages = 9e15

-- Libraries

local froms, clientIds, kinds, bodies = {}, {}, {}, {}
local owners, ownerOf = {}, {}
for i = 1, #members do
  local at = 4 * i - 3
  local from, clientId, kind, body = unpack(items, at, at + 3)
  froms[i], clientIds[i], kinds[i], bodies[i] = from, clientId, kind, body
  if not ownerOf[from] then
    owners[#owners + 1] = ownField(from)
    ownerOf[from] = #owners
  end
end
local state, refusal = openChat(chat, meta, heads, messages, positions, owners)
if refusal == newerLayout then return newerLayout end
if not state then return { { refusal } } end
local now = readClock()

-- The senders, the messages that were sent before, and the earlier refusals.
local caller, number = string.match(call, '^(%S+) (%d+)$')
local fields = { '', caller }
local senders = {}
for i, member in ipairs(members) do
  local from = froms[i]
  fields[i + 2] = #from .. ':' .. from .. clientIds[i]
  if not senders[from] then
    local position, rest, epoch = string.match(redis.call('HGET', member, chat) or '', '^(%d+) (%d+ %S+ (.*))$')
    senders[from] = { member = member, position = epoch == state.id and tonumber(position), rest = rest, own = {} }
  end
end
-- Client ids are kept by time windows, in two hashes by turns: ids of this window and of the window before are valid.
local even, odd = redis.call('HMGET', sentEven, unpack(fields)), redis.call('HMGET', sentOdd, unpack(fields))
local evenWindow, oddWindow = tonumber(even[1] or -1), tonumber(odd[1] or -1)
local window = math.max(math.floor(now / state.dedupeMs), evenWindow, oddWindow)
local function known(i)
  return evenWindow >= window - 1 and even[i] or oddWindow >= window - 1 and odd[i]
end
-- A repeat of a call gets its refusals, even if there is room by now: its caller may have received them.
local refusedNumber, refusedCodes = string.match(known(2) or '', '^(%d+) (%d+)$')
local isRepeat = refusedNumber and tonumber(refusedNumber) >= tonumber(number)
local function refusedBefore(i)
  if not isRepeat then return 0 end
  return refusedNumber == number and tonumber(string.sub(refusedCodes, i, i)) or 4
end
failOnOtherType(positions, activity)

-- Space is decided message by message, but messages are dropped only once, at the end. Messages that are already too old are dropped first: the
-- stream may have expired, and after a new message nothing would show why the others are missing.
local isTrimmed = (state.refuses or state.ageMs > 0 and state.headAt < now - state.ageMs) and trim(state, messages, positions, now)
local function hasRoom(size)
  if state.count > 0 and state.head - state.floor >= state.count then return false end
  return state.maxBytes == 0 or state.bytes - state.floorBytes + size <= state.maxBytes
end
local function isFull(size)
  if not state.refuses or hasRoom(size) then return false end
  -- No member can acknowledge messages that the server lost, so they would fill the chat for ever.
  if state.floor == state.head or messageAfter(messages, state.floor) then return true end
  state.floor, state.floorBytes, state.isLost = state.head, state.bytes, true
  return not hasRoom(size)
end

-- Records a member's own messages. Forgets dropped messages, and the oldest runs beyond `mostStretches`.
local function withOwn(own, added, floor)
  local stretches = {}
  for first, last in string.gmatch(own, '(%d+)%-(%d+)') do
    -- Numbers that the server lost are used again.
    last = math.min(last, added[1] - 1)
    if last > floor and last >= tonumber(first) then stretches[#stretches + 1] = { first, last } end
  end
  for _, sequence in ipairs(added) do
    local newest = stretches[#stretches]
    if newest and newest[2] == sequence - 1 then
      newest[2] = sequence
    else
      stretches[#stretches + 1] = { int(sequence), sequence }
    end
  end
  local texts = {}
  for i = math.max(1, #stretches - mostStretches + 1), #stretches do
    texts[#texts + 1] = stretches[i][1] .. '-' .. int(stretches[i][2])
  end
  return table.concat(texts, ',')
end

local codes, remembered, given, firstSent = {}, {}, {}, nil
for i = 1, #members do
  local from, kind, body = froms[i], kinds[i], bodies[i]
  local field = fields[i + 2]
  local sender = senders[from]
  local before = given[field] or known(i + 2)
  local code, sequence, at = refusedBefore(i), 0, 0
  if before then
    code = 5
    sequence, at = string.match(before, '^(%d+) (%d+)$')
  elseif code > 0 then
    sequence = code == 3 and state.maxBody or 0
  elseif not sender.position and not state.isOpen then
    code = 2
  elseif #body > state.maxBody then
    code, sequence = 3, state.maxBody
  elseif state.head >= mostMessages or isFull(#body) then
    code = 4
  else
    sequence, at = state.head + 1, math.max(state.headAt, now)
    local text, atText = int(sequence), int(at)
    local id = text .. '-' .. atText
    if state.maxBytes > 0 then
      redis.call('XADD', messages, id, 'f', from, kind, body, 't', int(state.bytes + #body))
      state.bytes = state.bytes + #body
    else
      redis.call('XADD', messages, id, 'f', from, kind, body)
    end
    -- A sender has read its own message, and its position moves if it had read everything. In a mailbox the message still has to
    -- be handled.
    if sender.position == state.head and not state.isMailbox then
      sender.position = sequence
      sender.movedTo = text
    elseif sender.position and not state.isMailbox then
      sender.own[#sender.own + 1] = sequence
    end
    state.head, state.headAt = sequence, at
    firstSent = firstSent or text
    given[field] = text .. ' ' .. atText
    remembered[#remembered + 1] = field
    remembered[#remembered + 1] = given[field]
  end
  codes[3 * i - 2], codes[3 * i - 1], codes[3 * i] = code, tonumber(sequence), tonumber(at)
end
local isSent, words, isRefused = #remembered > 0, {}, false
for i = 1, #members do
  words[i] = codes[3 * i - 2]
  isRefused = isRefused or words[i] > 0 and words[i] < 5
end
if isRefused and not isRepeat then
  remembered[#remembered + 1] = caller
  remembered[#remembered + 1] = number .. ' ' .. table.concat(words)
end
if isTrimmed and not isSent then saveChat(state, meta, heads) end
if #remembered == 0 then return { codes, {} } end

local sent = ({ sentEven, sentOdd })[window % 2 + 1]
local isNew = (window % 2 == 0 and evenWindow or oddWindow) ~= window
-- Ids of an earlier window are left only if settings or clocks have changed: usually the hash expires before its turn comes again.
-- They are overwritten: while the slot moves to another node, a script fails at a key that it has emptied.
local stale = isNew and redis.call('HKEYS', sent) or {}
if isNew then
  remembered[#remembered + 1] = ''
  remembered[#remembered + 1] = int(window)
end
redis.call('HSET', sent, unpack(remembered))
if isNew then
  redis.call('PEXPIRE', sent, int(math.min(2 * state.dedupeMs, (window + 2) * state.dedupeMs - 1 - now)))
  for i = 1, #remembered, 2 do given[remembered[i]] = '' end
  for _, field in ipairs(stale) do
    if not given[field] then redis.call('HDEL', sent, field) end
  end
end
if not isSent then return { codes, {} } end
for from, sender in pairs(senders) do
  if sender.movedTo then
    redis.call('HSET', sender.member, chat, sender.movedTo .. ' ' .. sender.rest)
    redis.call('ZADD', positions, sender.movedTo, from)
  end
  if sender.own[1] then
    redis.call('HSET', meta, 'owners', 1, ownField(from), withOwn(state.own[ownerOf[from]] or '', sender.own, state.floor))
  end
end
trim(state, messages, positions, now)
saveChat(state, meta, heads)
if state.ageMs > 0 then redis.call('PEXPIRE', messages, state.ageMs + 1000) end
announce(activity, chat, 's', { firstSent })

local lagging = {}
if state.lagMessages > 0 or state.lagAge > 0 then
  local slowest = redis.call('ZRANGE', positions, 0, 7, 'WITHSCORES')
  for i = 1, #slowest, 2 do
    local position = tonumber(slowest[i + 1])
    local isBehind = state.lagMessages > 0 and state.head - position > state.lagMessages
    local own = isBehind and redis.call('HGET', meta, ownField(slowest[i]))
    local isLagging = isBehind and state.head - position - ownAfter(state, position, own) > state.lagMessages
    if not isLagging and state.lagAge > 0 and position < state.head then
      local _, at = messageAfter(messages, position)
      isLagging = at and now - at > state.lagAge
    end
    if not isLagging and not isBehind then break end
    if isLagging then
      lagging[#lagging + 1] = slowest[i]
      lagging[#lagging + 1] = int(position)
    end
  end
end
return { codes, lagging }
