-- create.lua - creates a chat with its first members, unless a chat has that name.
--
-- KEYS[1]  meta        hash     layout, epoch, settings
-- KEYS[2]  heads       hash     chat to `head floor headAt bytes floorBytes`
-- KEYS[3]  messages    stream   the messages
-- KEYS[4]  positions   zset     member to position
-- KEYS[5]  activity    stream   what changed in the shard
-- KEYS[6]  sentEven    hash     client ids of windows of even numbers
-- KEYS[7]  sentOdd     hash     client ids of windows of odd numbers
-- KEYS[8]  layout      hash     the shard's copy of the number of shards
-- KEYS[n]  members     hash     for each member its chats: chat to `position from joinId epoch`
-- ARGV[1]  chat        string   its name
-- ARGV[2]  epoch       string   random name of the chat's epoch; also the id of this operation
-- ARGV[3]  config      string   settings, ten numbers
-- ARGV[4]  receipts    string   1: members get each other's positions; or empty
-- ARGV[5]  shards      integer  their number, from which these keys follow
-- ARGV[6]  isSure      string   1: the caller has just read it; or empty
-- ARGV[n]  names       string   the members' names
--
-- Reply     0   created, now or by an earlier try of this call
--           1   the chat exists already; nothing changed
--           2   a deletion of a chat of that name is not finished; nothing changed
--           3   the shard is new, was lost, or has chats of another number of shards: read that number; nothing changed
--           error KIT_LAYOUT  a newer version created it; nothing changed
local meta = KEYS[1]
local heads = KEYS[2]
local messages = KEYS[3]
local positions = KEYS[4]
local activity = KEYS[5]
local sentEven = KEYS[6]
local sentOdd = KEYS[7]
local layout = KEYS[8]
local members = { unpack(KEYS, 9) }
local chat = ARGV[1]
local epoch = ARGV[2]
local config = ARGV[3]
local receipts = ARGV[4]
local shards = ARGV[5]
local isSure = ARGV[6]
local names = { unpack(ARGV, 7) }

-- Libraries

local stored = redis.call('HMGET', meta, 'layout', 'epoch')
if stored[1] then
  if stored[1] ~= '1' then return newerLayout end
  return stored[2] == epoch and 0 or 1
end
if redis.call('ZCARD', positions) > 0 then return 2 end
redis.call('HEXISTS', heads, chat)
failOnOtherType(activity)
local isKnown = redis.call('HGET', layout, 'shards') == shards
if not isKnown and isSure == '' then return 3 end
for _, member in ipairs(members) do
  redis.call('HEXISTS', member, chat)
end
local now = int(readClock())
redis.call('HSET', meta, 'layout', '1', 'epoch', epoch, 'config', config, 'createdAt', now)
if receipts ~= '' then redis.call('HSET', meta, 'receipts', receipts) end
if not isKnown then redis.call('HSET', layout, 'layout', '1', 'shards', shards) end
-- After an eviction, these keys of an earlier chat may be left.
redis.call('UNLINK', messages, sentEven, sentOdd)
redis.call('HSET', heads, chat, '0 0 ' .. now .. ' 0 0')
local joinId = announce(activity, chat, 'j', names)
for i, member in ipairs(members) do
  redis.call('HSET', member, chat, '0 0 ' .. joinId .. ' ' .. epoch)
  redis.call('ZADD', positions, 0, names[i])
end
return 0
