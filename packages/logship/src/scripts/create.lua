-- create.lua - the first record of a channel.
--
-- Needs readClock
-- Defines createChannel
local function createChannel(channel, epoch)
  -- Fences count from the time on: those of a deleted channel of this name are lower.
  redis.call('HSET', channel, 'layout', 1, 'epoch', epoch, 'used', 0, 'reserved', 0, 'fence', readClock())
end
