-- take.lua - leases messages of a mailbox to one worker: first those whose lease has ended, then new ones.
--
-- KEYS[1]  meta       hash     layout, epoch, settings
-- KEYS[2]  heads      hash     chat to `head floor headAt bytes floorBytes`
-- KEYS[3]  messages   stream   the messages
-- KEYS[4]  positions  zset     member to position
-- KEYS[5]  member     hash     the recipient's chats: chat to `position from joinId epoch`
-- KEYS[6]  mailbox    hash     sequence to `deadline deliveries token` or `acked token`; the empty field: `cursor seenAt epoch`
-- ARGV[1]  chat       string   its name
-- ARGV[2]  token      string   random name of these leases; also the id of this operation
-- ARGV[3]  limit      integer  how many messages at most
-- ARGV[4]  maxBytes   integer  how many bytes of bodies at most; one message is given in any case
-- ARGV[5]  leaseMs    integer  for how long
--
-- Reply     {0, nextMs, {id, sender, kind, body, deliveries, gapFrom, gapReason, …}}  nextMs: when the next lease of another
--                  worker ends, -1: there is none; gapFrom: the first of the messages right before this one that no worker
--                  will receive, empty: none is missing; gapReason 1: dropped, 2: lost
--           {1} {2}  no such chat; no member
--           error KIT_LAYOUT  written by a newer version
local meta = KEYS[1]
local heads = KEYS[2]
local messages = KEYS[3]
local positions = KEYS[4]
local member = KEYS[5]
local mailbox = KEYS[6]
local chat = ARGV[1]
local token = ARGV[2]
local limit = tonumber(ARGV[3])
local maxBytes = tonumber(ARGV[4])
local leaseMs = tonumber(ARGV[5])
-- The most messages that are leased at a time: each call reads all leases.
local mostLeases = 1000

-- Libraries

local state, refusal = openChat(chat, meta, heads, messages, positions)
if refusal == newerLayout then return newerLayout end
if not state then return { refusal } end
local position, rest = recipientOf(state, member, positions)
if not position then return { 2 } end
local now = readClock()
applyAge(state, messages, now)
local box = openMailbox(mailbox, state.epoch, position)

local reply, count, bytesLeft = {}, 0, maxBytes
local function give(entry, deliveries, gapFrom, gapReason)
  local fields = entry[2]
  if count > 0 and bytesLeft < #fields[4] then return false end
  count = count + 1
  bytesLeft = bytesLeft - #fields[4]
  for _, value in ipairs({ entry[1], fields[2], fields[3], fields[4], deliveries, gapFrom, gapReason }) do
    reply[#reply + 1] = value
  end
  return true
end
local function messageOf(lease)
  if lease.sequence <= state.floor then return nil end
  return redis.call('XRANGE', messages, int(lease.sequence), int(lease.sequence), 'COUNT', 1)[1]
end

local ended, nextAt, isRepeated = {}, nil, false
for _, lease in ipairs(box.leases) do
  if lease.token == token then
    isRepeated = true
    local entry = messageOf(lease)
    if entry then give(entry, lease.deliveries, '', 0) end
  elseif lease.deadline <= now then
    ended[#ended + 1] = lease
  elseif not nextAt or lease.deadline < nextAt then
    nextAt = lease.deadline
  end
end
local nextMs = nextAt and nextAt - now or -1
if isRepeated then return { 0, nextMs, reply } end

local leases = {}
local function lease(sequence, deliveries)
  leases[#leases + 1] = int(sequence)
  leases[#leases + 1] = int(now + leaseMs) .. ' ' .. int(deliveries) .. ' ' .. token
end
for _, one in ipairs(ended) do
  if count >= limit then break end
  local entry = messageOf(one)
  if not entry then
    box.stale[#box.stale + 1] = int(one.sequence)
  elseif give(entry, one.deliveries + 1, '', 0) then
    lease(one.sequence, one.deliveries + 1)
  else
    break
  end
end
local start, room = math.max(box.cursor, state.floor), math.min(limit - count, mostLeases - #box.leases)
if room > 0 and start < state.head then
  for _, entry in ipairs(redis.call('XRANGE', messages, int(start + 1), '+', 'COUNT', room)) do
    local sequence = partsOf(entry[1])
    local gapFrom = sequence > box.cursor + 1 and int(box.cursor + 1) or ''
    if not give(entry, 1, gapFrom, sequence - 1 <= state.floor and 1 or 2) then break end
    lease(sequence, 1)
    box.cursor = sequence
  end
end

-- Removes nothing. At maxmemory Redis allows writes in a script after one that can only free memory.
redis.call('HDEL', mailbox, 'none')
if #leases > 0 then redis.call('HSET', mailbox, unpack(leases)) end
saveMailbox(mailbox, box, state.epoch, now)
redis.call('HSET', member, chat, int(position) .. ' ' .. rest)
if state.isRecovered then saveChat(state, meta, heads) end
local isLeased = {}
for i = 1, #leases, 2 do isLeased[leases[i]] = true end
for _, field in ipairs(box.stale) do
  if not isLeased[field] then redis.call('HDEL', mailbox, field) end
end
return { 0, nextMs, reply }
