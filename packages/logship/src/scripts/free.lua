-- free.lua - unlinks chunks that no consumer needs, and lowers the use of the channel.
--
-- KEYS[1]   channel       hash   the record of the channel
-- KEYS[2]   free          hash   key-part of a chunk that no consumer needs to the bytes it counts for
-- KEYS[n]  unneeded string  the chunks
-- ARGV[1]  events   string  Pub/Sub channel for hints
-- ARGV[n]  parts    string  key-part of each chunk
--
-- Reply     parts that are still to be unlinked, at most 200
local channel = KEYS[1]
local free = KEYS[2]
local unneeded = { unpack(KEYS, 3) }
local events = ARGV[1]
local parts = { unpack(ARGV, 2) }

local bytes = 0
for i, part in ipairs(parts) do
  local held = redis.call('HGET', free, part)
  if held then
    redis.call('UNLINK', unneeded[i])
    redis.call('HDEL', free, part)
    bytes = bytes + tonumber(held)
  end
end
if bytes > 0 then
  redis.call('HINCRBY', channel, 'used', -bytes)
  redis.call('PUBLISH', events, 'space')
end
return redis.call('HRANDFIELD', free, 200)
