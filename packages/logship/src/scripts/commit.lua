-- commit.lua - makes written chunks part of their file, and reserves space for the next.
--
-- KEYS[1]   channel       hash   the record of the channel
-- KEYS[2]   files         hash   `<id>:<fact>` of each file
-- KEYS[3]   live          zset   file id, scored by itself
-- KEYS[4]   chunks        hash   `<id> <ordinal>` to `part size text crc lines storedAt textAt`
-- KEYS[5]   leases        zset   `<id> <fence>` to the ms at which the reservation ends
-- KEYS[6]   sources       hash   source identity to file id, once done also its totals; `text <beginning>` to identities
-- KEYS[7]   done          zset   source identity to the ms at which its file was done
-- KEYS[8]   consumers     hash   consumer to `fence after op`
-- KEYS[9]   positions     hash   `<id> <consumer>` to `seq chunk state position cause`
-- KEYS[10]  free          hash   key-part of a chunk that no consumer needs to the bytes it counts for
-- KEYS[n]  written       string   the chunks, each until now with the expiry of its reservation
-- ARGV[1]  file          string   id
-- ARGV[2]  fence         string   of the shipper
-- ARGV[3]  first         integer  ordinal of the first of these chunks
-- ARGV[4]  want          integer  bytes to have reserved afterwards
-- ARGV[5]  chunkBytes    integer  largest chunk of this shipper, stored bytes
-- ARGV[6]  leaseMs       integer  life of the reservation, milliseconds
-- ARGV[7]  events        string   Pub/Sub channel for hints
-- ARGV[8]  crcBefore     string   CRC-32 of the file's text before these chunks
-- ARGV[9]  crcAfter      string   CRC-32 of the file's text, up to and with these chunks
-- ARGV[n]  facts         string   of each chunk `part size text crc lines`: key-part, stored bytes, text bytes, CRC-32 of the stored
--                                 bytes, line feeds
--
-- Reply     {1, bytes, endsAt, part, …}  committed, now or before; so many bytes are reserved; parts to unlink, if every consumer has given the file up
--           {0}  another shipper has this file
--           {4}  there is no such file any more
--           {2}  the reservation has ended, or a chunk is missing: write them again
--           {3}  the file does not end where these start
local channel = KEYS[1]
local files = KEYS[2]
local live = KEYS[3]
local chunks = KEYS[4]
local leases = KEYS[5]
local sources = KEYS[6]
local done = KEYS[7]
local consumers = KEYS[8]
local positions = KEYS[9]
local free = KEYS[10]
local written = { unpack(KEYS, 11) }
local file = ARGV[1]
local fence = ARGV[2]
local first = tonumber(ARGV[3])
local want = tonumber(ARGV[4])
local chunkBytes = tonumber(ARGV[5])
local leaseMs = tonumber(ARGV[6])
local events = ARGV[7]
local crcBefore = ARGV[8]
local crcAfter = ARGV[9]
local facts = { unpack(ARGV, 10) }

-- Libraries

local known = redis.call('HMGET', files, file .. ':fence', file .. ':chunks', file .. ':state', file .. ':stored', file .. ':text', file .. ':crc', file .. ':freed')
if known[1] ~= fence or known[3] ~= 'open' then return { known[1] and 0 or 4 } end
local now = readClock()
local lease = file .. ' ' .. fence
local unit = heldBytes(chunkBytes)
local count = tonumber(known[2])
if count == first + #written and known[6] == crcAfter then
  -- A repeat: the reply to the first one was lost.
  local spare = spareFor(channel, files, live, file)
  return { 1, raiseReservation(channel, leases, lease, want, unit, spare, now, leaseMs), now + leaseMs }
end
if count ~= first or known[6] ~= crcBefore then return { 3 } end
local ending = redis.call('ZSCORE', leases, lease)
if not ending or tonumber(ending) <= now then return { 2 } end
for i, key in ipairs(written) do
  local at = 5 * i - 4
  local _, size = unpack(facts, at, at + 1)
  if redis.call('STRLEN', key) ~= tonumber(size) then return { 2 } end
end

local held, stored, allText, allLines = 0, 0, 0, 0
local storedAt, textAt = tonumber(known[4]), tonumber(known[5])
for i, key in ipairs(written) do
  local at = 5 * i - 4
  local part, size, text, crc, lines = unpack(facts, at, at + 4)
  redis.call('PERSIST', key)
  redis.call('HSET', chunks, file .. ' ' .. (first + i - 1),
    string.format('%s %s %s %s %s %.0f %.0f', part, size, text, crc, lines, storedAt + stored, textAt + allText))
  held = held + heldBytes(tonumber(size))
  stored = stored + tonumber(size)
  allText = allText + tonumber(text)
  allLines = allLines + tonumber(lines)
end
redis.call('HINCRBY', files, file .. ':chunks', #written)
redis.call('HINCRBY', files, file .. ':text', allText)
redis.call('HINCRBY', files, file .. ':stored', stored)
redis.call('HINCRBY', files, file .. ':lines', allLines)
redis.call('HSET', files, file .. ':crc', crcAfter, file .. ':at', now)
redis.call('HINCRBY', channel, 'used', held)
lowerReservation(channel, lease, held)
local have = raiseReservation(channel, leases, lease, want, unit, spareFor(channel, files, live, file), now, leaseMs)
local reply = { 1, have, now + leaseMs }
-- Consumers that skipped the file do not return to it: no commit of theirs would free these chunks.
if tonumber(known[7]) == count then
  removeReleased(files, live, sources, done, chunks, positions,
    releaseChunks(channel, files, sources, done, chunks, consumers, positions, free, file, reply, {}))
end
if have == 0 then redis.call('ZREM', leases, lease) end
redis.call('PUBLISH', events, 'data')
return reply
