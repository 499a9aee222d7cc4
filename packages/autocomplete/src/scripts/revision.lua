-- revision.lua - the next revision of a sharded index: higher than all before.
--
-- KEYS[1]  index         hash  layout, settings, those of a rebuild and its token
--
-- Reply     the revision, as text: the server's microseconds, or one more than the last where its clock stepped back
local index = KEYS[1]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local revision = string.format('%.0f', math.max(now, (tonumber(redis.call('HGET', index, 'revision') or 0) or 0) + 1))
redis.call('HSET', index, 'revision', revision)
return revision
