-- change.lua - changes how many bytes a channel may hold, or closes it.
-- No file can be opened any more then, and receivers end behind the last one.
--
-- KEYS[1]   channel       hash   the record of the channel
-- ARGV[1]  limit    string  bytes; empty: the channel is closed
-- ARGV[2]  epoch    string  of the channel: a late repeat must not change another one
-- ARGV[3]  events   string  Pub/Sub channel for hints
--
-- Reply     1  changed, now or before
--           0  it is another channel
--           error KIT_LAYOUT  written by a newer version
local channel = KEYS[1]
local limit = ARGV[1]
local epoch = ARGV[2]
local events = ARGV[3]

-- Libraries

local layout = redis.call('HGET', channel, 'layout')
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT it was written by a newer version') end
if not layout and limit ~= '' then createChannel(channel, epoch) end
if redis.call('HGET', channel, 'epoch') ~= epoch then return 0 end
if limit == '' then redis.call('HSET', channel, 'closed', 1) else redis.call('HSET', channel, 'limit', limit) end
redis.call('PUBLISH', events, 'data')
redis.call('PUBLISH', events, 'space')
return 1
