-- seal.lua - ends a file: nothing can be added any more.
--
-- KEYS[1]   channel       hash   the record of the channel
-- KEYS[2]   files         hash   `<id>:<fact>` of each file
-- KEYS[3]   sources       hash   source identity to file id, once done also its totals; `text <beginning>` to identities
-- KEYS[4]   leases        zset   `<id> <fence>` to the ms at which the reservation ends
-- KEYS[5]   live          zset   file id, scored by itself
-- KEYS[6]   done          zset   source identity to the ms at which its file was done
-- KEYS[7]   chunks        hash   `<id> <ordinal>` to `part size text crc lines storedAt textAt`
-- KEYS[8]   consumers     hash   consumer to `fence after op`
-- KEYS[9]   positions     hash   `<id> <consumer>` to `seq chunk state position cause`
-- KEYS[10]  free          hash   key-part of a chunk that no consumer needs to the bytes it counts for
-- ARGV[1]  file       string   id
-- ARGV[2]  fence      string   of the shipper
-- ARGV[3]  count      integer  chunks that it must have, unless it ends before its end
-- ARGV[4]  sha256     string   of its text, or of its stored bytes where they were passed through; hexadecimal
-- ARGV[5]  fault      string   why it ends before its end: its source can be shipped again then, as another file; else empty
-- ARGV[6]  silentMs   integer  -1: its shipper ends it; else another process, if it was opened, and had its last commit, so long ago
-- ARGV[7]  events     string   Pub/Sub channel for hints
--
-- Reply     1  sealed, now or before
--           0  another shipper has this file
--           4  there is no such file any more
--           3  it has another number of chunks
local channel = KEYS[1]
local files = KEYS[2]
local sources = KEYS[3]
local leases = KEYS[4]
local live = KEYS[5]
local done = KEYS[6]
local chunks = KEYS[7]
local consumers = KEYS[8]
local positions = KEYS[9]
local free = KEYS[10]
local file = ARGV[1]
local fence = ARGV[2]
local count = ARGV[3]
local sha256 = ARGV[4]
local fault = ARGV[5]
local silentMs = tonumber(ARGV[6])
local events = ARGV[7]

-- Libraries

local known = redis.call('HMGET', files, file .. ':fence', file .. ':chunks', file .. ':state', file .. ':source', file .. ':at')
if known[1] ~= fence then return known[1] and 0 or 4 end
if fault == '' and known[2] ~= count then return 3 end
if known[3] == 'sealed' then return 1 end
local lease = file .. ' ' .. fence
local now = readClock()
local isAtWork = tonumber(redis.call('ZSCORE', leases, lease) or '0') > now or tonumber(known[5]) > now - silentMs
if silentMs >= 0 and isAtWork then return 0 end
failOnOtherType(sources)
lowerReservation(channel, lease, math.huge)
forgetNeed(channel, file)
redis.call('HSET', files, file .. ':state', 'sealed', file .. ':sha256', sha256)
if fault ~= '' then
  -- A shipper that returns late must not take this file for its own.
  if silentMs >= 0 then redis.call('HSET', files, file .. ':fence', nextFence(channel)) end
  redis.call('HSET', files, file .. ':fault', fault)
  withBeginning(unlistContent, sources, known[4])
  -- This may empty the key, which `releaseChunks` does not touch for a file that ended early.
  redis.call('HDEL', sources, known[4])
end
-- All consumers may have skipped it before its end.
removeReleased(files, live, sources, done, chunks, positions,
  releaseChunks(channel, files, sources, done, chunks, consumers, positions, free, file, {}, {}))
redis.call('ZREM', leases, lease)
redis.call('PUBLISH', events, 'data')
redis.call('PUBLISH', events, 'space')
return 1
