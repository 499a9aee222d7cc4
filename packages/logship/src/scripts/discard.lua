-- discard.lua - one step of deleting a channel: its shippers and receivers are refused at once, its chunks are unlinked step by step.
--
-- KEYS[1]   channel       hash   the record of the channel
-- KEYS[2]   files         hash   `<id>:<fact>` of each file
-- KEYS[3]   live          zset   file id, scored by itself
-- KEYS[4]   sources       hash   source identity to file id, once done also its totals; `text <beginning>` to identities
-- KEYS[5]   done          zset   source identity to the ms at which its file was done
-- KEYS[6]   chunks        hash   `<id> <ordinal>` to `part size text crc lines storedAt textAt`
-- KEYS[7]   consumers     hash   consumer to `fence after op`
-- KEYS[8]   seen          zset   consumer to the ms of its last sign
-- KEYS[9]   positions     hash   `<id> <consumer>` to `seq chunk state position cause`
-- KEYS[10]  free          hash   key-part of a chunk that no consumer needs to the bytes it counts for
-- KEYS[11]  leases        zset   `<id> <fence>` to the ms at which the reservation ends
-- KEYS[n]   targets       any    where results go
-- ARGV[1]  epoch         string  of the channel: a late repeat must not delete another one
-- ARGV[2]  isLast        integer 1: if no chunk is left, the record of the channel and its results go too
-- ARGV[3]  events        string  Pub/Sub channel for hints
--
-- Reply     parts to unlink, at most 200; none: this step is done
--           error KIT_LAYOUT  written by a newer version
local channel = KEYS[1]
local files = KEYS[2]
local live = KEYS[3]
local sources = KEYS[4]
local done = KEYS[5]
local chunks = KEYS[6]
local consumers = KEYS[7]
local seen = KEYS[8]
local positions = KEYS[9]
local free = KEYS[10]
local leases = KEYS[11]
local targets = KEYS
local epoch = ARGV[1]
local isLast = ARGV[2] == '1'
local events = ARGV[3]

local layout = redis.call('HGET', channel, 'layout')
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT it was written by a newer version') end
local current = redis.call('HGET', channel, 'epoch')
-- An empty epoch: the deletion has started.
if current and current ~= '' and current ~= epoch then return {} end
failOnOtherType(chunks, free)
redis.call('UNLINK', files, live, sources, done, leases, consumers, seen, positions)
-- No new channel of this name can start until the last chunk is gone: its files would have the same ids.
if layout then redis.call('HSET', channel, 'closed', 1, 'epoch', '') end
local some = redis.call('HRANDFIELD', chunks, 200, 'WITHVALUES')
for i = 1, #some, 2 do
  redis.call('HDEL', chunks, some[i])
  redis.call('HSET', free, string.match(some[i + 1], '^%S+'), 1)
end
local parts = redis.call('HRANDFIELD', free, 200)
if #parts == 0 and isLast then
  redis.call('UNLINK', channel, chunks, free)
  for i = 12, #targets do redis.call('UNLINK', targets[i]) end
end
redis.call('PUBLISH', events, 'data')
redis.call('PUBLISH', events, 'space')
return parts
