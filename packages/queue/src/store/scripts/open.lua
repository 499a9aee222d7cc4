-- open.lua - checks the layout.
-- Producers and workers run it before anything else.
--
-- KEYS[1]  meta    hash     layout and counters
-- ARGV[1]  layout  integer  the layout of this version
--
-- Reply     now                server time, epoch ms
--           error KIT_LAYOUT   a newer version wrote it; nothing changed
local meta = KEYS[1]
local layout = ARGV[1]

local stored = redis.call('HGET', meta, 'layout')
if stored and (tonumber(stored) or math.huge) > tonumber(layout) then
  return redis.error_reply('KIT_LAYOUT the queue was written by a newer version')
end
if not stored then redis.call('HSET', meta, 'layout', layout) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
