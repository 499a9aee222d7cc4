-- ack.lua - moves positions forward, never back, and drops messages that all members have read.
--
-- KEYS[n]  keys  any     `meta heads messages positions member activity` of each acknowledgement: `member` has the user's chats
-- ARGV[n]  acks  string  `chat user sequence at` of each: the message's time, empty: not checked
--
-- Reply     {code, …}  for each: 0 its position is at the message or after it; 1 no such chat; 2 no member; 6 beyond the head; 7 another
--                      message has that sequence; error KIT_LAYOUT instead: written by a newer version
local keys = KEYS
local acks = ARGV

-- Libraries

local now = readClock()
local reply = {}

-- Moves a position past the member's own messages that follow it. Returns the position, and the own messages after it.
local function passOwn(own, position, head)
  local left = {}
  for first, last in string.gmatch(own, '(%d+)%-(%d+)') do
    if first - 1 > position then
      left[#left + 1] = first .. '-' .. last
    else
      position = math.max(position, math.min(last, head))
    end
  end
  return position, table.concat(left, ',')
end

local function acknowledge(chat, user, sequence, at, meta, heads, messages, positions, member, activity)
  -- Removes nothing. At maxmemory Redis allows writes in a script after one that can only free memory.
  redis.call('ZREM', positions, '')
  local state, refusal = openChat(chat, meta, heads, messages, positions, { ownField(user), 'receipts' })
  if not state then return refusal end
  local position, rest, epoch = string.match(redis.call('HGET', member, chat) or '', '^(%d+) (%d+ %S+ (.*))$')
  if epoch ~= state.id then return 2 end
  position, sequence = tonumber(position), tonumber(sequence)
  if sequence > state.head then return 6 end
  if at ~= '' and sequence > state.floor then
    local isSame
    if sequence == state.head then
      isSame = tonumber(at) == state.headAt
    else
      local found = redis.call('XRANGE', messages, int(sequence), int(sequence), 'COUNT', 1)[1]
      isSame = not found or found[1] == int(sequence) .. '-' .. at
    end
    if not isSame then return 7 end
  end
  if sequence <= position then return 0 end
  if state.own[1] then
    local left
    sequence, left = passOwn(state.own[1], sequence, state.head)
    if left == '' then
      redis.call('HDEL', meta, ownField(user))
    else
      redis.call('HSET', meta, ownField(user), left)
    end
  end
  redis.call('HSET', member, chat, int(sequence) .. ' ' .. rest)
  redis.call('ZADD', positions, int(sequence), user)
  if trim(state, messages, positions, now) or state.isRecovered then saveChat(state, meta, heads) end
  -- This comes last: a repeat of the call finds the position there and ends above.
  if now < state.subscribedUntil then announce(activity, chat, 'p', { user, int(sequence), state.own[2] or nil }) end
  return 0
end

local key = 1
for ack = 1, #acks, 4 do
  local meta, heads, messages, positions, member, activity = unpack(keys, key, key + 5)
  local chat, user, sequence, at = unpack(acks, ack, ack + 3)
  reply[#reply + 1] = acknowledge(chat, user, sequence, at, meta, heads, messages, positions, member, activity)
  key = key + 6
end
return reply
