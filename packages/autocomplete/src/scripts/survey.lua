-- survey.lua - the size and state of a shard.
--
-- KEYS[1]  index         hash  layout, settings, those of a rebuild and its token
-- KEYS[2]  rows          zset  `suffix NUL kind id`; alphabetical: with a tag before and the item behind
-- KEYS[3]  ranked        zset  `prefix NUL rank rest NUL kind id`
-- KEYS[4]  items         hash  id to `revision NUL weight NUL starts NUL fold NUL text [NUL payload]`
-- KEYS[5]  stagedItems   hash  items of a rebuild; the empty id has its token
--
-- Reply     {settings, switched, items, rows, ranked, staged}  settings empty: there is no index; the token of the last
--                             rebuild; staged: items that a rebuild has written, -1: there is none
--           error KIT_LAYOUT  written by a newer version
local index = KEYS[1]
local rows = KEYS[2]
local ranked = KEYS[3]
local items = KEYS[4]
local stagedItems = KEYS[5]

local layout, settings, switched = unpack(redis.call('HMGET', index, 'layout', 'settings', 'switched'))
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT a newer version wrote it') end
local sizes = { redis.call('HLEN', items), redis.call('ZCARD', rows), redis.call('ZCARD', ranked) }
return { settings or '', switched or '', sizes[1], sizes[2], sizes[3], redis.call('HLEN', stagedItems) - 1 }
