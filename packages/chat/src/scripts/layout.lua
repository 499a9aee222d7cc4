-- layout.lua - says into how many shards the chats of a prefix are divided; the first to ask decides.
--
-- KEYS[1]  layout  hash     number of the layout, number of shards
-- ARGV[1]  shards  integer  how many, unless it is stored already
--
-- Reply     {layout, shards}
local layout = KEYS[1]
local shards = ARGV[1]

if redis.call('EXISTS', layout) == 0 then redis.call('HSET', layout, 'layout', '1', 'shards', shards) end
local stored = redis.call('HMGET', layout, 'layout', 'shards')
return { stored[1] or '', stored[2] or '' }
