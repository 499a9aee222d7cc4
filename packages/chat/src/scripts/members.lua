-- members.lua - reads a page of a chat's members with their positions; changes nothing.
--
-- KEYS[1]  meta       hash     layout, epoch, settings
-- KEYS[2]  heads      hash     chat to `head floor headAt bytes floorBytes`
-- KEYS[3]  messages   stream   the messages
-- KEYS[4]  positions  zset     member to position
-- ARGV[1]  chat       string   its name
-- ARGV[2]  cursor     string   where the last page ended; 0: the first page
-- ARGV[3]  limit      integer  about how many
--
-- Reply     {0, cursor, {member, position, unread, …}}  cursor 0: that was the last page
--           {1}  no such chat
--           error KIT_LAYOUT  written by a newer version
local meta = KEYS[1]
local heads = KEYS[2]
local messages = KEYS[3]
local positions = KEYS[4]
local chat = ARGV[1]
local cursor = ARGV[2]
local limit = tonumber(ARGV[3])

-- Libraries

local state, refusal = openChat(chat, meta, heads, messages)
if refusal == newerLayout then return newerLayout end
if not state then return { refusal } end
applyAge(state, messages, readClock())
local page = redis.call('ZSCAN', positions, cursor, 'COUNT', limit)
-- In most chats, no member sent messages after its position.
local owners, own = {}, {}
if redis.call('HGET', meta, 'owners') then
  for i = 1, #page[2], 2 do owners[#owners + 1] = ownField(page[2][i]) end
  if #owners > 0 then own = redis.call('HMGET', meta, unpack(owners)) end
end
local members = {}
for i = 1, #page[2], 2 do
  members[#members + 1] = page[2][i]
  members[#members + 1] = page[2][i + 1]
  members[#members + 1] = unreadOf(state, tonumber(page[2][i + 1]), own[(i + 1) / 2])
end
return { 0, page[1], members }
