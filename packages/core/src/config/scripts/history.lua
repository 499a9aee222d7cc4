-- history.lua - the last writes of a configuration.
--
-- KEYS[1]  entry    hash     layout, epoch, revision, at, op, author, value
-- KEYS[2]  history  list     the newest first: epoch, revision, at, op, author and value, separated by tabs
-- ARGV[1]  limit    integer  how many at most
--
-- Reply     the newest first, as they are kept
--           error KIT_LAYOUT  written by a newer version
local entry = KEYS[1]
local history = KEYS[2]
local limit = tonumber(ARGV[1])

local layout = redis.call('HGET', entry, 'layout')
if layout and layout ~= '1' then
  return redis.error_reply('KIT_LAYOUT the configuration was written by a newer version')
end
return redis.call('LRANGE', history, 0, limit - 1)
