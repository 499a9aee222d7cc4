-- join.lua - makes users members of a chat; does nothing for members.
--
-- KEYS[1]  meta       hash    layout, epoch, settings
-- KEYS[2]  heads      hash    chat to `head floor headAt bytes floorBytes`
-- KEYS[3]  messages   stream  the messages
-- KEYS[4]  positions  zset    member to position
-- KEYS[5]  activity   stream  what changed in the shard
-- KEYS[n]  members    hash    for each member its chats: chat to `position from joinId epoch`
-- ARGV[1]  chat       string  its name
-- ARGV[2]  history    string  `none`, `all`, `last N`, or `after N`: earlier messages count as read
-- ARGV[n]  names      string  the members' names
--
-- Reply     {0, position, …}  the position of each
--           {1}               there is no such chat
--           error KIT_LAYOUT  written by a newer version
local meta = KEYS[1]
local heads = KEYS[2]
local messages = KEYS[3]
local positions = KEYS[4]
local activity = KEYS[5]
local members = { unpack(KEYS, 6) }
local chat = ARGV[1]
local history = ARGV[2]
local names = { unpack(ARGV, 3) }
-- A new member's own messages are looked for among the newest 256, in steps, up to this number of bytes of bodies.
local mostSteps, step, mostBytes = 16, 16, 1048576

-- Libraries

local state, refusal = openChat(chat, meta, heads, messages, positions)
if refusal == newerLayout then return newerLayout end
if not state then return { refusal } end
applyAge(state, messages, readClock())
failOnOtherType(positions, activity)
local stored = {}
for i, member in ipairs(members) do
  stored[i] = redis.call('HGET', member, chat)
end

local start = state.head
local kind, number = string.match(history, '^(%a+) (%d+)$')
if history == 'all' then
  start = 0
elseif kind == 'last' then
  start = state.head - number
elseif kind == 'after' then
  start = math.min(tonumber(number), state.head)
end
start = math.max(start, state.floor)

local reply, joined, indexes, own = { 0 }, {}, {}, {}
for i, _ in ipairs(members) do
  local position, epoch = string.match(stored[i] or '', '^(%d+) %d+ %S+ (.*)$')
  if epoch == state.id then
    reply[i + 1] = tonumber(position)
  else
    reply[i + 1] = start
    joined[#joined + 1] = names[i]
    indexes[#indexes + 1] = i
    own[names[i]] = {}
  end
end
-- A new member may have sent messages in an earlier membership, or as a non-member. `send` did not record them.
if joined[1] and start < state.head and not state.isMailbox then
  local below, bytes = state.head, 0
  for _ = 1, mostSteps do
    local page = redis.call('XREVRANGE', messages, int(below), int(start + 1), 'COUNT', step)
    for _, entry in ipairs(page) do
      local sequence, texts = int(partsOf(entry[1])), own[entry[2][2]]
      if texts then table.insert(texts, 1, sequence .. '-' .. sequence) end
      below, bytes = sequence - 1, bytes + #entry[2][4]
    end
    if #page < step or below <= start or bytes >= mostBytes then break end
  end
end
local joinId = announce(activity, chat, 'j', joined)
for i, index in ipairs(indexes) do
  local member = members[index]
  redis.call('HSET', member, chat, int(start) .. ' ' .. int(start) .. ' ' .. joinId .. ' ' .. state.id)
  redis.call('ZADD', positions, int(start), joined[i])
  local texts = own[joined[i]]
  if texts[1] then redis.call('HSET', meta, 'owners', 1, ownField(joined[i]), table.concat(texts, ',')) end
end
if state.isRecovered then saveChat(state, meta, heads) end
return reply
