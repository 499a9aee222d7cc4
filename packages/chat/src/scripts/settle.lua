-- settle.lua - ends or extends the lease of one message of a mailbox.
--
-- KEYS[1]  meta       hash     layout, epoch, settings
-- KEYS[2]  heads      hash     chat to `head floor headAt bytes floorBytes`
-- KEYS[3]  messages   stream   the messages
-- KEYS[4]  positions  zset     member to position
-- KEYS[5]  activity   stream   what changed in the shard
-- KEYS[6]  member     hash     the recipient's chats: chat to `position from joinId epoch`
-- KEYS[7]  mailbox    hash     sequence to `deadline deliveries token` or `acked token`; the empty field: `cursor seenAt epoch`
-- ARGV[1]  chat       string   its name
-- ARGV[2]  user       string   the recipient
-- ARGV[3]  sequence   integer  the message
-- ARGV[4]  token      string   the lease
-- ARGV[5]  leaseMs    integer  for how long it is extended; 0: the message is free for others; -1: it is acknowledged
--
-- Reply     0  done, now or by an earlier try of this call
--           8  the lease is no longer this worker's, or another worker has acknowledged the message
--           1  no such chat
--           2  no member
--           error KIT_LAYOUT  written by a newer version
local meta = KEYS[1]
local heads = KEYS[2]
local messages = KEYS[3]
local positions = KEYS[4]
local activity = KEYS[5]
local member = KEYS[6]
local mailbox = KEYS[7]
local chat = ARGV[1]
local user = ARGV[2]
local sequence = tonumber(ARGV[3])
local token = ARGV[4]
local leaseMs = tonumber(ARGV[5])
-- For this number of messages, the mailbox records which of several workers acknowledged them.
local mostAcked = 256

-- Libraries

local state, refusal = openChat(chat, meta, heads, messages, positions)
if not state then return refusal end
local position, rest = recipientOf(state, member, positions)
if not position then return 2 end
local box = openMailbox(mailbox, state.epoch, position)
failOnOtherType(activity)
allowWrites(positions)

-- Finds the first other unacknowledged message.
local lease, first = nil, box.cursor + 1
for _, one in ipairs(box.leases) do
  if one.sequence == sequence then
    lease = one
  else
    first = math.min(first, one.sequence)
  end
end
-- The message is already acknowledged, perhaps by an earlier try of this call. Only one worker ever had it, unless its last
-- lease was recorded.
if not lease then
  for _, one in ipairs(box.acked) do
    if one.sequence == sequence and one.token ~= token then return 8 end
  end
  return leaseMs < 0 and sequence <= box.cursor and 0 or 8
end
if lease.token ~= token then return 8 end
local now = readClock()
if leaseMs >= 0 then
  local deadline = leaseMs > 0 and now + leaseMs or 0
  redis.call('HSET', mailbox, int(sequence), int(deadline) .. ' ' .. int(lease.deliveries) .. ' ' .. token)
  if leaseMs == 0 and lease.deadline > 0 then announce(activity, chat, 'r', { int(sequence) }) end
else
  if first - 1 > position then
    redis.call('HSET', member, chat, int(first - 1) .. ' ' .. rest)
    redis.call('ZADD', positions, int(first - 1), user)
  end
  if trim(state, messages, positions, now) or state.isRecovered then saveChat(state, meta, heads) end
end
saveMailbox(mailbox, box, state.epoch, now)
if leaseMs < 0 and lease.deliveries > 1 then
  redis.call('HSET', mailbox, int(sequence), 'acked ' .. token)
  if #box.acked >= mostAcked then redis.call('HDEL', mailbox, int(box.acked[1].sequence)) end
elseif leaseMs < 0 then
  redis.call('HDEL', mailbox, int(sequence))
end
return 0
