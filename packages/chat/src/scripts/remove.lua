-- remove.lua - deletes a chat; its members' own records are left for forget.lua.
--
-- KEYS[1]  meta        hash    layout, epoch, settings
-- KEYS[2]  heads       hash    chat to `head floor headAt bytes floorBytes`
-- KEYS[3]  messages    stream  the messages
-- KEYS[4]  positions   zset    member to position
-- KEYS[5]  sentEven    hash    client ids of windows of even numbers
-- KEYS[6]  sentOdd     hash    client ids of windows of odd numbers
-- KEYS[7]  mailbox     hash    the leases of a mailbox's workers
-- ARGV[1]  chat        string  its name
--
-- Reply     {name, …}  members whose records are left, five hundred at most
--           error KIT_LAYOUT  written by a newer version; nothing changed
local meta = KEYS[1]
local heads = KEYS[2]
local messages = KEYS[3]
local positions = KEYS[4]
local sentEven = KEYS[5]
local sentOdd = KEYS[6]
local mailbox = KEYS[7]
local chat = ARGV[1]

local layout = redis.call('HGET', meta, 'layout')
if (layout or '1') ~= '1' then return redis.error_reply('KIT_LAYOUT the chat was written by a newer version') end
local left = redis.call('ZRANGE', positions, 0, 499)
-- After the last chat, no position can move. The field for subscribers would keep the key.
redis.call('HDEL', heads, chat, layout and redis.call('HLEN', heads) == 2 and '' or chat)
redis.call('UNLINK', meta, messages, sentEven, sentOdd, mailbox)
return left
