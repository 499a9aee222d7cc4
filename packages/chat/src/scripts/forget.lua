-- forget.lua - removes a deleted chat from the records of some of its members.
--
-- KEYS[1]  meta       hash    layout, epoch, settings; there is none
-- KEYS[2]  positions  zset    members whose records are left
-- KEYS[3]  activity   stream  what changed in the shard
-- KEYS[n]  members    hash    for each of these members its chats
-- ARGV[1]  chat       string  its name
-- ARGV[n]  names      string  the members' names
--
-- Reply     {name, …}  members whose records are left, five hundred at most; none if the chat was created again
local meta = KEYS[1]
local positions = KEYS[2]
local activity = KEYS[3]
local members = { unpack(KEYS, 4) }
local chat = ARGV[1]
local names = { unpack(ARGV, 2) }

-- Libraries

if redis.call('EXISTS', meta) == 1 then return {} end
failOnOtherType(activity)
allowWrites(positions)
local gone, isGone, left = {}, {}, {}
for _, name in ipairs(names) do
  if redis.call('ZSCORE', positions, name) then gone[#gone + 1] = name end
  isGone[name] = true
end
for _, name in ipairs(redis.call('ZRANGE', positions, 0, 499 + #gone)) do
  if not isGone[name] then left[#left + 1] = name end
end
announce(activity, chat, 'd', gone)
-- This comes last: it may empty keys, and while the slot moves to another node, a script fails at a key that is gone.
for _, member in ipairs(members) do redis.call('HDEL', member, chat) end
if #gone > 0 then redis.call('ZREM', positions, unpack(gone)) end
return left
