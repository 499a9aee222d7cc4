-- advance.lua - the commit of a consumer: results and position together; chunks that no consumer needs any more are freed.
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
-- KEYS[n]   targets       any    where results go
-- ARGV[1]  consumer   string   name
-- ARGV[2]  fence      string   of this process
-- ARGV[3]  file       string   id
-- ARGV[4]  seq        integer  number of this commit
-- ARGV[5]  chunk      integer  first chunk that this position still needs
-- ARGV[6]  state      string   done; open; or quarantined: its chunks are kept, and the consumer goes on with other files
-- ARGV[7]  position   string   the new one
-- ARGV[8]  cause      string   why it is quarantined; else empty
-- ARGV[9]  place      string   `<ordinal> <part>` of the chunk in which the position lies; empty: none was read
-- ARGV[10] results    string   JSON: kind, number of its key, field, value of each
--
-- Reply     {1, part, …}  committed, now or before; parts to unlink
--           {0, fence}  another process works as this consumer; 0: it is not known
--           {3}     the record is not at the commit before this one
--           {4}  there is no such file any more
--           {5, fault}  a result cannot be applied; nothing was changed
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
local targets = KEYS
local consumer = ARGV[1]
local fence = ARGV[2]
local file = ARGV[3]
local seq = tonumber(ARGV[4])
local chunk = tonumber(ARGV[5])
local state = ARGV[6]
local position = ARGV[7]
local cause = ARGV[8]
local place = ARGV[9]
local results = cjson.decode(ARGV[10])

-- Libraries

local mine = redis.call('HGET', consumers, consumer)
local holder = mine and string.match(mine, '^%d+') or '0'
if holder ~= fence then return { 0, holder } end
local field = file .. ' ' .. consumer
local record = redis.call('HGET', positions, field)
local current = tonumber(record and string.match(record, '^%d+') or '0')
local facts = redis.call('HMGET', files, file .. ':state', file .. ':freed', file .. ':source')
-- A repeat of the last commit may find that the first one has removed the file.
if not facts[1] then return { tonumber(redis.call('HGET', channel, 'lastFile') or '0') >= tonumber(file) and 1 or 4 } end
if current ~= seq and current ~= seq - 1 then return { 3 } end
if current == seq - 1 and place ~= '' then
  -- After a failover the file or its last chunks may have been shipped anew: then another file has this id, or its chunks end elsewhere.
  local ordinal, part = string.match(place, '^(%d+) (%S+)$')
  local entry = redis.call('HGET', chunks, file .. ' ' .. ordinal)
  if not entry or string.match(entry, '^%S+') ~= part then return { 3 } end
end
-- Otherwise another consumer needs the chunks that this one leaves, or it leaves none.
local freed, left = tonumber(facts[2]), tonumber(string.match(record or '', '^%d+ (%d+)') or '0')
local isSlowest = state ~= 'open' or (left <= freed and chunk > freed)
if current == seq - 1 then
  local fault, made = checkResults(targets, 11, results)
  if fault then return { 5, fault } end
  if isSlowest then
    failOnOtherType(live, done, sources, chunks, free)
  end
  local now = readClock()
  allowWrites(seen)
  applyResults(channel, made, targets, 11, results)
  redis.call('HSET', positions, field, string.format('%d %d %s %s %s', seq, chunk, state, position, cause))
  redis.call('ZADD', seen, now, consumer)
end

local reply = { 1 }
if isSlowest then
  removeReleased(files, live, sources, done, chunks, positions,
    releaseChunks(channel, files, sources, done, chunks, consumers, positions, free, file, reply, {}))
end
return reply
