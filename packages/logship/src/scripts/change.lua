-- change.lua - changes how many bytes a channel may hold, or closes it: no file can be opened any more, and receivers end behind the last one.
--
-- KEYS[1]   channel       hash   the record of the channel
-- ARGV[1]  limit    string  bytes; empty: the channel is closed, if there is one
-- ARGV[2]  epoch    string  of the channel, if it is new
-- ARGV[3]  events   string  Pub/Sub channel for hints
--
-- Reply     1  changed, now or before
--           error KIT_LAYOUT  written by a newer version
local channel = KEYS[1]
local limit = ARGV[1]
local epoch = ARGV[2]
local events = ARGV[3]

-- Libraries

local layout = redis.call('HGET', channel, 'layout')
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT it was written by a newer version') end
if limit ~= '' then
  if not layout then createChannel(channel, epoch) end
  redis.call('HSET', channel, 'limit', limit)
elseif layout then
  redis.call('HSET', channel, 'closed', 1)
end
redis.call('PUBLISH', events, 'data')
redis.call('PUBLISH', events, 'space')
return 1
