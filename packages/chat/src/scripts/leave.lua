-- leave.lua - ends a membership, and drops messages that only this member had not read.
--
-- KEYS[1]  meta       hash    layout, epoch, settings
-- KEYS[2]  heads      hash    chat to `head floor headAt bytes floorBytes`
-- KEYS[3]  messages   stream  the messages
-- KEYS[4]  positions  zset    member to position
-- KEYS[5]  activity   stream  what changed in the shard
-- KEYS[6]  member     hash    the member's chats: chat to `position from joinId epoch`
-- ARGV[1]  chat       string  its name
-- ARGV[2]  user       string  the member's name
-- ARGV[3]  upTo       string  only if its position is not beyond this one; empty: in any case
--
-- Reply     1  it was a member
--           0  it was not a member, or is beyond `upTo`
--           error KIT_LAYOUT  written by a newer version
local meta = KEYS[1]
local heads = KEYS[2]
local messages = KEYS[3]
local positions = KEYS[4]
local activity = KEYS[5]
local member = KEYS[6]
local chat = ARGV[1]
local user = ARGV[2]
local upTo = ARGV[3]

-- Libraries

local state, refusal = openChat(chat, meta, heads, messages, positions)
if refusal == newerLayout then return newerLayout end
local position = redis.call('ZSCORE', positions, user)
if upTo ~= '' and (not position or tonumber(position) > tonumber(upTo)) then return 0 end
failOnOtherType(activity)
local wasMember = redis.call('HEXISTS', member, chat)
allowWrites(positions)
if state then
  if trim(state, messages, positions, readClock(), user) or state.isRecovered then saveChat(state, meta, heads) end
  if wasMember == 1 then announce(activity, chat, 'l', { user }) end
  redis.call('HDEL', meta, ownField(user))
end
-- This comes last: it may empty keys, and while the slot moves to another node, a script fails at a key that is gone.
redis.call('ZREM', positions, user)
redis.call('HDEL', member, chat)
return state and wasMember or 0
