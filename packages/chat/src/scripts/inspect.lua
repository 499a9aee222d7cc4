-- inspect.lua - reads the state of a chat; changes nothing.
--
-- KEYS[1]  meta       hash    layout, epoch, settings
-- KEYS[2]  heads      hash    chat to `head floor headAt bytes floorBytes`
-- KEYS[3]  messages   stream  the messages
-- KEYS[4]  positions  zset    member to position
-- ARGV[1]  chat       string  its name
--
-- Reply     {0, createdAt, head, floor, headAt, oldestAt, members, slowest}  oldestAt 0: no message; slowest -1: no member
--           {1}  no such chat
--           error KIT_LAYOUT  written by a newer version
local meta = KEYS[1]
local heads = KEYS[2]
local messages = KEYS[3]
local positions = KEYS[4]
local chat = ARGV[1]

-- Libraries

local state, refusal = openChat(chat, meta, heads, messages)
if refusal == newerLayout then return newerLayout end
if not state then return { refusal } end
applyAge(state, messages, readClock())
local _, oldestAt = messageAfter(messages, state.floor)
local slowest = redis.call('ZRANGE', positions, 0, 0, 'WITHSCORES')[2]
local members = redis.call('ZCARD', positions)
return { 0, state.createdAt, state.head, state.floor, state.headAt, oldestAt or 0, members, tonumber(slowest or -1) }
