-- layout.lua - reads the number of shards of a prefix, and stores it if there is none.
--
-- KEYS[1]  layout  hash     number of the layout, number of shards
-- ARGV[1]  shards  integer  the number to store if there is none; 0: nothing is stored
--
-- Reply     the number of shards; 0: there is none
--           error KIT_LAYOUT  written by a newer version
local layout = KEYS[1]
local shards = ARGV[1]

local number, stored = unpack(redis.call('HMGET', layout, 'layout', 'shards'))
if number and number ~= '1' then return redis.error_reply('KIT_LAYOUT the chats were written by a newer version') end
if stored or shards == '0' then return stored or 0 end
redis.call('HSET', layout, 'layout', '1', 'shards', shards)
return shards
