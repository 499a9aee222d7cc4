-- unread.lua - counts the messages of others that a member has not acknowledged in some chats; changes nothing.
--
-- KEYS[1]  member  hash    the member's chats: chat to `position from joinId epoch`
-- KEYS[2]  heads   hash    chat to `head floor headAt bytes floorBytes`
-- KEYS[n]  keys    any     `meta messages` of each chat
-- ARGV[1]  user    string  the member's name
-- ARGV[n]  chats   string  their names
--
-- Reply     {count, …}  for each chat; -1: no such chat; -2: no member; error KIT_LAYOUT instead: written by a newer version
local member = KEYS[1]
local heads = KEYS[2]
local keys = { unpack(KEYS, 3) }
local user = ARGV[1]
local chats = { unpack(ARGV, 2) }

-- Libraries

local now = readClock()
local memberships = redis.call('HMGET', member, unpack(chats))
local reply, owners = {}, { ownField(user) }
for i, chat in ipairs(chats) do
  local key = 2 * i - 1
  local meta, messages = unpack(keys, key, key + 1)
  local state, refusal = openChat(chat, meta, heads, messages, nil, owners)
  if not state then
    reply[i] = refusal == newerLayout and refusal or -refusal
  else
    local position, epoch = string.match(memberships[i] or '', '^(%d+) %d+ %S+ (.*)$')
    if epoch ~= state.id then
      reply[i] = -2
    else
      applyAge(state, messages, now)
      reply[i] = unreadOf(state, tonumber(position), state.own[1])
    end
  end
end
return reply
