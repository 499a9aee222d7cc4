-- read.lua - the current value of a configuration.
--
-- KEYS[1]  entry  hash  layout, epoch, revision, at, op, author, value
--
-- Reply     { epoch, revision, at, value }
--           { }  there is no entry
--           error KIT_LAYOUT  written by a newer version, or damaged
local entry = KEYS[1]

local function isNumber(text) return text and #text <= 16 and string.find(text, '^%d+$') ~= nil end

local found = redis.call('HMGET', entry, 'layout', 'epoch', 'revision', 'at', 'value')
if found[1] == '1' and isNumber(found[2]) and isNumber(found[3]) and isNumber(found[4]) and found[5] then
  return { found[2], found[3], found[4], found[5] }
end
if not found[1] and redis.call('EXISTS', entry) == 0 then return {} end
return redis.error_reply('KIT_LAYOUT the configuration was written by a newer version, or is damaged')
