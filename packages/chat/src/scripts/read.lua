-- read.lua - reads messages of several chats, each from a reader's position; changes nothing.
--
-- KEYS[n]  keys      any      `meta heads messages` of each chat
-- ARGV[1]  user      string   the member that reads
-- ARGV[2]  limit     integer  how many messages at most
-- ARGV[3]  maxBytes  integer  how many bytes of bodies at most; one message is given in any case
-- ARGV[n]  chats     string   `name memberEpoch startEpoch start position from upTo` of each: the epoch of the membership; the epoch
--                             of start, or empty; start: `SEQUENCE`, `SEQUENCE-MS` of the message that was read last, `SEQUENCE@MS` or
--                             `SEQUENCE>MS`; position: the member's; from: the sequence up to which the member sees nothing; upTo:
--                             the last to read, empty: the head. Later ones would come again with the next look at the activity
--
-- Reply     {{epoch, unread, reset, gapFrom, gapTo, gapReason, isCut, entries}, …}  for each chat; reset 1: the message at
--           start is not there, 2: another epoch; gapReason 1: dropped, 2: lost; isCut: there was no room for all;
--           entries: of the stream, packed, since a reply of so many strings costs a reader several times as much
--           {}  instead: no such chat, or the membership is of another epoch of it
local keys = KEYS
local user = ARGV[1]
local limit = tonumber(ARGV[2])
local maxBytes = tonumber(ARGV[3])
local chats = { unpack(ARGV, 4) }

-- Libraries

local now = readClock()
local left, bytesLeft = limit, maxBytes
local reply, owners = {}, { ownField(user) }

-- Up to `most` messages in (sequence, high], within the remaining bytes. Returns whether the bytes ran out.
local function take(messages, sequence, high, most, taken)
  local last = sequence
  while most > 0 do
    local step = math.min(most, 50)
    local page = redis.call('XRANGE', messages, int(last + 1), int(high), 'COUNT', step)
    for _, entry in ipairs(page) do
      local fields = entry[2]
      if left < limit and bytesLeft < #fields[4] then return false end
      bytesLeft = bytesLeft - #fields[4]
      left = left - 1
      taken[#taken + 1] = entry
    end
    if #page < step then return true end
    last = partsOf(page[#page][1])
    most = most - step
  end
  return false
end

-- The sequence after which to read, and the reset.
local function startOf(state, messages, startEpoch, start, position, from)
  if startEpoch ~= '' and startEpoch ~= state.epoch then return from, 2 end
  local sequence, mark, at = string.match(start, '^(%d+)([-@>]?)(%d*)$')
  sequence, at = tonumber(sequence), tonumber(at)
  -- From the earlier of a time and the position.
  local function since(time)
    local earlier = lastWhere(messages, state.floor, state.head, function(sentAt)
      return sentAt < time
    end)
    return math.max(math.min(position, earlier), from)
  end
  if mark == '@' then return since(at), 0 end
  if mark == '>' then return math.max(sequence, from), state.createdAt > at and 2 or 0 end
  local isForked = sequence > state.head
  if mark == '-' and sequence > state.floor and not isForked then
    local found, foundAt = messageAfter(messages, sequence - 1)
    isForked = found == sequence and foundAt ~= at
  end
  -- The messages that replaced the lost messages are not older, and another reader may have acknowledged them for the member.
  if isForked then return since((at or 0) - clockSkewMs), 1 end
  return math.max(sequence, from), 0
end

local count = #chats / 7
for i = 1, count do
  local key, at = 3 * i - 2, 7 * i - 6
  local meta, heads, messages = unpack(keys, key, key + 2)
  local name, memberEpoch, startEpoch, start, position, from, upTo = unpack(chats, at, at + 6)
  local state = openChat(name, meta, heads, messages, nil, owners)
  if not state or state.id ~= memberEpoch then
    reply[i] = {}
  else
    applyAge(state, messages, now)
    local after, reset = startOf(state, messages, startEpoch, start, tonumber(position), tonumber(from))
    local gapFrom, gapTo, reason = 0, 0, 0
    if after < state.floor then
      gapFrom, gapTo, reason = after + 1, state.floor, 1
      after = state.floor
    end
    local high = math.min(state.head, tonumber(upTo) or state.head)
    local taken, isCut = {}, after < high
    if left > 0 and after < high then
      local isEnd = take(messages, after, high, math.ceil(left / (count - i + 1)), taken)
      local first = taken[1] and partsOf(taken[1][1]) or isEnd and high + 1
      if first and first > after + 1 then
        if reason == 0 then gapFrom = after + 1 end
        gapTo, reason = first - 1, 2
      end
      isCut = not isEnd and partsOf(taken[1] and taken[#taken][1] or '0-0') ~= high
    end
    local unread = unreadOf(state, tonumber(position), state.own[1])
    reply[i] = { state.epoch, unread, reset, gapFrom, gapTo, reason, isCut and 1 or 0, cmsgpack.pack(taken) }
  end
end
return reply
