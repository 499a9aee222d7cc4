-- history.lua - the last writes of a configuration.
--
-- KEYS[1]  entry     hash     layout, epoch, revision, at, op, author, value
-- KEYS[2]  history   list     the newest first: epoch, revision, at, op, author and value, separated by tabs
-- ARGV[1]  limit     integer  how many to look at, at most
-- ARGV[2]  revision  string   only those of this revision; empty: all
--
-- Reply     the newest first, as they are kept; no further one behind 4 MiB
--           error KIT_LAYOUT  written by a newer version
local entry = KEYS[1]
local history = KEYS[2]
local limit = tonumber(ARGV[1])
local revision = ARGV[2]

local layout = redis.call('HGET', entry, 'layout')
if layout and layout ~= '1' then
  return redis.error_reply('KIT_LAYOUT the configuration was written by a newer version')
end
local reply, bytes = {}, 0
for place = 0, limit - 1 do
  local found = redis.call('LRANGE', history, place, place)[1]
  if not found or bytes > 4194304 then break end
  if revision == '' or string.match(found, '^[^\t]*\t([^\t]*)') == revision then
    reply[#reply + 1] = found
    bytes = bytes + #found
  end
end
return reply
