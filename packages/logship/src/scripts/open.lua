-- open.lua - starts or goes on with shipping a source; an earlier shipper of it is fenced off.
--
-- KEYS[1]   channel       hash   the record of the channel
-- KEYS[2]   files         hash   `<id>:<fact>` of each file
-- KEYS[3]   live          zset   file id, scored by itself
-- KEYS[4]   sources       hash   source identity to file id, once done also its totals; `text <beginning>` to identities
-- KEYS[5]   consumers     hash   consumer to `fence after op`
-- ARGV[1]  source       string  identity of the source
-- ARGV[2]  mine         string  the fence that this shipper had before; empty at its first open
-- ARGV[3]  name         string  name of the file
-- ARGV[4]  codec        string  how its chunks are stored: gzip, none, or member (passed through)
-- ARGV[5]  limit        integer bytes that the channel may hold, unless it has a limit
-- ARGV[6]  epoch        string  of the channel, if it is new
-- ARGV[7]  events       string  Pub/Sub channel for hints
-- ARGV[8]  op           string  id of this open: sent again it is the same shipper
-- ARGV[9]  total        integer stored bytes of a file that is passed through: it is freed as a whole; else 0
-- ARGV[10] chunkBytes   integer largest chunk of this shipper, stored bytes
-- ARGV[n]  expected     string  consumers that must have every file
--
-- Reply     {1, epoch, limit, id, fence, chunks, text, crc, lines, codec, stored}  go on behind these chunks
--           {2, epoch, limit, id, 0, 0, text, crc, lines, codec, stored, sha256}  it has been shipped
--           {3, epoch}  another shipper opened it later
--           {4, epoch}  the channel is closed, and this source is new to it
--           {5, epoch, limit}  it is passed through, and too large for the channel
--           error KIT_LAYOUT  written by a newer version
local channel = KEYS[1]
local files = KEYS[2]
local live = KEYS[3]
local sources = KEYS[4]
local consumers = KEYS[5]
local source = ARGV[1]
local mine = ARGV[2]
local name = ARGV[3]
local codec = ARGV[4]
local limit = ARGV[5]
local epoch = ARGV[6]
local events = ARGV[7]
local op = ARGV[8]
local total = tonumber(ARGV[9])
local chunkBytes = tonumber(ARGV[10])
local expected = { unpack(ARGV, 11) }

-- Libraries

local layout = redis.call('HGET', channel, 'layout')
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT it was written by a newer version') end
failOnOtherType(live, files, sources, consumers)
if not layout then createChannel(channel, epoch) end
redis.call('HSETNX', channel, 'limit', limit)
for _, consumer in ipairs(expected) do
  -- A consumer that joins after chunks were freed could not have them.
  if not redis.call('HGET', channel, 'dropped ' .. consumer) then
    redis.call('HSETNX', consumers, consumer, '0 ' .. (redis.call('HGET', channel, 'lastFile') or '0') .. ' ')
  end
end
local state = redis.call('HMGET', channel, 'epoch', 'limit', 'closed')
epoch = state[1]
local need = math.ceil(total / chunkBytes) * heldBytes(chunkBytes)

local known = redis.call('HGET', sources, source)
if known and string.find(known, ' ', 1, true) then
  local id, text, crc, lines, kept, stored, sha = string.match(known, '^(%d+) (%d+) (%d+) (%d+) (%a+) (%d+) (%x*)$')
  return { 2, epoch, state[2], id, 0, 0, text, crc, lines, kept, stored, sha }
end
if known then
  local facts = redis.call('HMGET', files, known .. ':state', known .. ':fence', known .. ':chunks', known .. ':text',
    known .. ':crc', known .. ':lines', known .. ':codec', known .. ':stored', known .. ':sha256', known .. ':op')
  if facts[1] == 'sealed' then
    return { 2, epoch, state[2], known, 0, 0, facts[4], facts[5], facts[6], facts[7], facts[8], facts[9] or '' }
  end
  if facts[1] and need > tonumber(state[2]) then return { 5, epoch, state[2] } end
  if facts[1] then
    local fence = facts[2]
    if op ~= facts[10] then
      -- A lower fence than ours: a failover lost our opening.
      if mine ~= '' and tonumber(fence) > tonumber(mine) then return { 3, epoch } end
      fence = nextFence(channel)
      redis.call('HSET', files, known .. ':fence', fence, known .. ':op', op, known .. ':at', readClock())
    end
    return { 1, epoch, state[2], known, fence, facts[3], facts[4], facts[5], facts[6], facts[7], facts[8] }
  end
end
if state[3] then return { 4, epoch } end
if need > tonumber(state[2]) then return { 5, epoch, state[2] } end
local id = redis.call('HINCRBY', channel, 'lastFile', 1)
local fence = nextFence(channel)
redis.call('HSET', files, id .. ':name', name, id .. ':source', source, id .. ':codec', codec, id .. ':state', 'open',
  id .. ':fence', fence, id .. ':chunks', 0, id .. ':freed', 0, id .. ':text', 0, id .. ':stored', 0, id .. ':lines', 0,
  id .. ':crc', 0, id .. ':op', op, id .. ':at', readClock())
if need > 0 then
  redis.call('HSET', channel, 'needs', string.format('%s %d:%d', redis.call('HGET', channel, 'needs') or '', id, need))
end
redis.call('ZADD', live, id, id)
redis.call('HSET', sources, source, id)
withBeginning(listContent, sources, source)
redis.call('PUBLISH', events, 'data')
return { 1, epoch, state[2], id, fence, 0, 0, 0, 0, codec, 0 }
