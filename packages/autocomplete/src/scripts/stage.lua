-- stage.lua - begins a rebuild: empties the generation that is not current, and marks it.
--
-- KEYS[1]  index     hash     layout, current generation, settings of each, token of a rebuild
-- KEYS[2]  live      set      ids that were written while a rebuild ran
-- KEYS[3]  aRows     zset     `suffix NUL kind id`
-- KEYS[4]  aRanked   zset     `prefix NUL rank rest NUL kind id`
-- KEYS[5]  aItems    hash     id to its record
-- KEYS[6]  bRows     zset     the same of the other generation
-- KEYS[7]  bRanked   zset     the same
-- KEYS[8]  bItems    hash     the same
-- ARGV[1]  token     string   of the rebuild; sent again, nothing changes
-- ARGV[2]  settings  string   by which it will fold
-- ARGV[3]  keepMs    integer  how long staged data lives after this, milliseconds
--
-- Reply     1  done; another rebuild that was under way is over
--           error KIT_LAYOUT  written by a newer version; nothing changed
local index = KEYS[1]
local live = KEYS[2]
local aRows = KEYS[3]
local aRanked = KEYS[4]
local aItems = KEYS[5]
local bRows = KEYS[6]
local bRanked = KEYS[7]
local bItems = KEYS[8]
local token = ARGV[1]
local settings = ARGV[2]
local keepMs = tonumber(ARGV[3])

local layout, current, staging = unpack(redis.call('HMGET', index, 'layout', 'current', 'staging'))
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT the index was written by a newer version') end
if staging == token then return 1 end
-- An index that lost its head is made anew by the rebuild, whatever lies there.
local rows, ranked, items, other = bRows, bRanked, bItems, 'b'
if current == 'b' then
  rows, ranked, items, other = aRows, aRanked, aItems, 'a'
end
redis.call('UNLINK', rows, ranked, items, live)
if not layout then redis.call('HSET', index, 'layout', '1', 'current', 'a', 'a', settings) end
redis.call('HSET', index, 'staging', token, other, settings)
redis.call('HSET', items, '', token)
redis.call('PEXPIRE', items, keepMs)
return 1
