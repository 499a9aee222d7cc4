-- mailbox.lua - counts the messages of a mailbox, and reads when its recipient was last seen; changes nothing.
--
-- KEYS[1]  meta       hash    layout, epoch, settings
-- KEYS[2]  heads      hash    chat to `head floor headAt bytes floorBytes`
-- KEYS[3]  messages   stream  the messages
-- KEYS[4]  positions  zset    member to position
-- KEYS[5]  member     hash    the recipient's chats: chat to `position from joinId epoch`
-- KEYS[6]  mailbox    hash    sequence to `deadline deliveries token` or `acked token`; the empty field: `cursor seenAt epoch`
-- ARGV[1]  chat       string  its name
--
-- Reply     {0, length, leased, oldestAt, seenAt, now}  times in epoch milliseconds; oldestAt, seenAt 0: none, never
--           {1} {2}  no such chat; no member
--           error KIT_LAYOUT  written by a newer version
local meta = KEYS[1]
local heads = KEYS[2]
local messages = KEYS[3]
local positions = KEYS[4]
local member = KEYS[5]
local mailbox = KEYS[6]
local chat = ARGV[1]

-- Libraries

local state, refusal = openChat(chat, meta, heads, messages)
if refusal == newerLayout then return newerLayout end
if not state then return { refusal } end
local position = recipientOf(state, member, positions)
if not position then return { 2 } end
local now = readClock()
applyAge(state, messages, now)
local box = openMailbox(mailbox, state.epoch, position)
local waiting = math.max(0, state.head - math.max(box.cursor, state.floor))
local length, leased, first = waiting, 0, math.max(box.cursor, state.floor) + 1
for _, lease in ipairs(box.leases) do
  if lease.sequence > state.floor then
    length = length + 1
    first = math.min(first, lease.sequence)
    if lease.deadline > now then leased = leased + 1 end
  end
end
local _, oldestAt = messageAfter(messages, first - 1)
-- The server has lost these messages.
if not oldestAt then
  length, leased = 0, 0
end
return { 0, length, leased, length > 0 and oldestAt or 0, box.seenAt, now }
