-- read.lua - reads which version of a database serves.
--
-- KEYS[1]  current  hash  layout, current, previous, epoch, isSealed, keepMs, at
--
-- Reply     { now, current, previous, epoch, isSealed, keepMs, at }  epoch milliseconds of the server, then the fields; `at`: seconds
--           { now }           nothing was imported yet
--           error KIT_LAYOUT  written by a newer version, or damaged
local current = KEYS[1]

local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local found = redis.call('HMGET', current, 'layout', 'current', 'previous', 'epoch', 'isSealed', 'keepMs', 'at')
if not found[1] and redis.call('EXISTS', current) == 0 then return { now } end
if found[1] ~= '1' or not found[2] or not found[3] or not found[4] or not found[5] or not found[6] then
  return redis.error_reply('KIT_LAYOUT the database was written by a newer version, or is damaged')
end
return { now, found[2], found[3], found[4], found[5], found[6], found[7] or '0' }
