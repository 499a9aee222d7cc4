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

local bytes, gone, left = 0, {}, {}
for i, part in ipairs(parts) do
  local held = redis.call('HGET', free, part)
  if held and not gone[part] then
    redis.call('UNLINK', unneeded[i])
    bytes = bytes + tonumber(held)
    gone[#gone + 1] = part
    gone[part] = true
  end
end
for _, part in ipairs(redis.call('HRANDFIELD', free, 200 + #gone)) do
  if not gone[part] and #left < 200 then left[#left + 1] = part end
end
if #gone > 0 then
  redis.call('HINCRBY', channel, 'used', -bytes)
  -- Comes last: it may empty the key, and while the slot moves to another node, a script fails at a key that is gone.
  redis.call('HDEL', free, unpack(gone))
  redis.call('PUBLISH', events, 'space')
end
return left
