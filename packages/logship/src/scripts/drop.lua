-- drop.lua - removes a consumer from a channel: nothing is kept for it any longer.
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
-- ARGV[1]  consumer   string   name
-- ARGV[2]  silentMs   integer  only if it gave no sign for so long; 0: in any case
-- ARGV[3]  after      integer  go on with files above this id; 0 at first
-- ARGV[4]  epoch      string   of the channel: a late repeat must not drop it from another one
--
-- Reply     {1, after, part, …}  dropped, now or before; go on above this id (-1: no more); parts to unlink
--           {0}  there is no such consumer, or it gave a sign
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
local consumer = ARGV[1]
local silentMs = tonumber(ARGV[2])
local after = ARGV[3]
local epoch = ARGV[4]

-- Libraries

local known = redis.call('HGET', consumers, consumer)
local isDropped = redis.call('HGET', channel, 'dropped ' .. consumer)
if not known and not isDropped then return { 0 } end
if redis.call('HGET', channel, 'epoch') ~= epoch then return { 0 } end
local sign = redis.call('ZSCORE', seen, consumer)
local now = readClock()
-- An expected consumer that never joined has given no sign of life, so it is not silent.
if not isDropped and silentMs > 0 and (not sign or tonumber(sign) > now - silentMs) then return { 0 } end
failOnOtherType(live, done, files, sources, chunks, positions, free)
-- These free memory, which allows the writes behind them at maxmemory.
redis.call('ZREM', seen, consumer)
-- Until the last step the consumer stays, as one that gets no file: if this process dies, the next one that finds no space continues.
if known then redis.call('HSET', consumers, consumer, '0 9007199254740991 ') end
redis.call('HSET', channel, 'dropped ' .. consumer, now)
local reply = { 1, -1 }
local some = redis.call('ZRANGEBYSCORE', live, '(' .. after, '+inf', 'LIMIT', 0, 100)
local released = { positions = {} }
for _, id in ipairs(some) do
  released.positions[#released.positions + 1] = id .. ' ' .. consumer
  releaseChunks(channel, files, sources, done, chunks, consumers, positions, free, id, reply, released)
  -- That is the most at a time: this file may have more.
  if #reply > 2 then
    reply[2] = id - 1
    break
  end
end
if #reply == 2 and #some == 100 then reply[2] = tonumber(some[100]) end
removeReleased(files, live, sources, done, chunks, positions, released)
if reply[2] == -1 then redis.call('HDEL', consumers, consumer) end
return reply
