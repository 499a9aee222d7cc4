-- create.lua - the first record of a channel.
--
-- Needs readMicros
-- Defines createChannel
local function createChannel(channel, epoch)
  -- The numbers of a deleted channel of this name are lower.
  local now = readMicros()
  redis.call('HSET', channel, 'layout', 1, 'epoch', epoch, 'used', 0, 'reserved', 0, 'fence', now, 'since', now)
end
