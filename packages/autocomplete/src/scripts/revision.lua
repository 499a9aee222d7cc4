-- revision.lua - the next revision of a sharded index, and its settings.
--
-- KEYS[1]  index     hash    layout, settings, those of a rebuild and its token
-- KEYS[2]  items     hash    id to `revision NUL weight NUL starts NUL fold NUL text [NUL payload]`
-- ARGV[1]  settings  string  which the index has from now on if it has none
--
-- Reply     {revision, settings}  the server's microseconds, or one more than the last where its clock stepped back; and the
--                                 settings by which all shards are written, empty: they are lost
--           error KIT_LAYOUT      written by a newer version
local index = KEYS[1]
local items = KEYS[2]
local settings = ARGV[1]

local layout, stored, last = unpack(redis.call('HMGET', index, 'layout', 'settings', 'revision'))
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT a newer version wrote it') end
local isNew = redis.call('HLEN', items) == 0 and not layout
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local revision = string.format('%.0f', math.max(now, (tonumber(last or 0) or 0) + 1))
redis.call('HSET', index, 'revision', revision)
-- Two writers that start an index with different settings agree here. Items without a head have lost it.
if isNew then
  redis.call('HSET', index, 'layout', '1', 'settings', settings)
  stored = settings
end
return { revision, stored or '' }
