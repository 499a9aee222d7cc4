-- survey.lua - how large one shard of an index is, and what state it is in; changes nothing.
--
-- KEYS[1]  index    hash  layout, current generation, settings of each, token of a rebuild
-- KEYS[2]  aRows    zset  `suffix NUL kind id`
-- KEYS[3]  aRanked  zset  `prefix NUL rank rest NUL kind id`
-- KEYS[4]  aItems   hash  id to its record
-- KEYS[5]  bRows    zset  the same of the other generation
-- KEYS[6]  bRanked  zset  the same
-- KEYS[7]  bItems   hash  the same
--
-- Reply     {settings, items, rows, ranked, staged, msLeft}  settings empty: there is no index; staged: items that a
--                             rebuild has written, -1: there is none; msLeft: until they expire
--           error KIT_LAYOUT  written by a newer version
local index = KEYS[1]
local aRows = KEYS[2]
local aRanked = KEYS[3]
local aItems = KEYS[4]
local bRows = KEYS[5]
local bRanked = KEYS[6]
local bItems = KEYS[7]

local layout, current, aSettings, bSettings = unpack(redis.call('HMGET', index, 'layout', 'current', 'a', 'b'))
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT the index was written by a newer version') end
local stored = current == 'b' and bSettings or aSettings
local rows, ranked, items, staging = aRows, aRanked, aItems, bItems
if current == 'b' then
  rows, ranked, items, staging = bRows, bRanked, bItems, aItems
end
local staged = redis.call('HLEN', staging) - 1
local msLeft = redis.call('PTTL', staging)
return { stored or '', redis.call('HLEN', items), redis.call('ZCARD', rows), redis.call('ZCARD', ranked), staged, msLeft }
