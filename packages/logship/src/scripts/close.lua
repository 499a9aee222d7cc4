-- close.lua - closes a channel: no file can be opened any more, and receivers end behind the last one.
--
-- KEYS[1]   channel       hash   the record of the channel
-- ARGV[1]  events   string  Pub/Sub channel for hints
--
-- Reply     1  closed, now or before
--           0  there is no such channel
local channel = KEYS[1]
local events = ARGV[1]

if not redis.call('HGET', channel, 'epoch') then return 0 end
redis.call('HSET', channel, 'closed', 1)
redis.call('PUBLISH', events, 'data')
redis.call('PUBLISH', events, 'space')
return 1
