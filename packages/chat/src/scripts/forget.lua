-- forget.lua - removes a deleted chat from the records of some of its members.
--
-- KEYS[1]  meta       hash    layout, epoch, settings; there is none
-- KEYS[2]  positions  zset    members whose records are left
-- KEYS[3]  activity   stream  what changed in the shard
-- KEYS[n]  members    hash    for each of these members its chats
-- ARGV[1]  chat       string  its name
-- ARGV[n]  names      string  the members' names
--
-- Reply     {name, …}  members whose records are left, five hundred at most; none if the chat was made again
local meta = KEYS[1]
local positions = KEYS[2]
local activity = KEYS[3]
local members = { unpack(KEYS, 4) }
local chat = ARGV[1]
local names = { unpack(ARGV, 2) }

-- Libraries

if redis.call('EXISTS', meta) == 1 then return {} end
redis.call('XLEN', activity)
local gone = {}
for i, member in ipairs(members) do
  if redis.call('ZREM', positions, names[i]) == 1 then gone[#gone + 1] = names[i] end
  redis.call('HDEL', member, chat)
end
announce(activity, chat, 'l', gone)
return redis.call('ZRANGE', positions, 0, 499)
