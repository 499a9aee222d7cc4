-- look.lua - the next files of a channel as a consumer sees them. A sign of life of the consumer.
--
-- KEYS[1]   channel       hash   the record of the channel
-- KEYS[2]   files         hash   `<id>:<fact>` of each file
-- KEYS[3]   live          zset   file id, scored by itself
-- KEYS[4]   consumers     hash   consumer to `fence after op`
-- KEYS[5]   seen          zset   consumer to the ms of its last sign
-- KEYS[6]   positions     hash   `<id> <consumer>` to `seq chunk state position cause`
-- ARGV[1]  consumer   string   name
-- ARGV[2]  fence      string   of this process
-- ARGV[3]  after      integer  only files with an id above it
-- ARGV[4]  most       integer  at most so many
--
-- Reply     {1, epoch, closed, file, …}  each {id, name, state, codec, chunks, text, stored, lines, crc, sha256, progress, fault}
--           {0, fence}  another process works as this consumer; 0: it is not known
--           {4}  there is no such channel any more
local channel = KEYS[1]
local files = KEYS[2]
local live = KEYS[3]
local consumers = KEYS[4]
local seen = KEYS[5]
local positions = KEYS[6]
local consumer = ARGV[1]
local fence = ARGV[2]
local after = ARGV[3]
local most = ARGV[4]

-- Libraries

local state = redis.call('HMGET', channel, 'epoch', 'closed')
if not state[1] then return { 4 } end
local known = redis.call('HGET', consumers, consumer)
local holder = known and string.match(known, '^%d+') or '0'
if holder ~= fence then return { 0, holder } end
failOnOtherType(live, files, positions)
allowWrites(seen)
redis.call('ZADD', seen, readClock(), consumer)
local reply = { 1, state[1], state[2] and 1 or 0 }
for _, id in ipairs(redis.call('ZRANGEBYSCORE', live, '(' .. after, '+inf', 'LIMIT', 0, most)) do
  local facts = redis.call('HMGET', files, id .. ':name', id .. ':state', id .. ':codec', id .. ':chunks', id .. ':text',
    id .. ':stored', id .. ':lines', id .. ':crc', id .. ':sha256', id .. ':freed', id .. ':from',
    id .. ':fault')
  -- A consumer that joined after a part was freed starts behind that part.
  local first = facts[11] and '0 ' .. facts[10] .. ' open ' .. facts[11] or ''
  reply[#reply + 1] = { id, facts[1], facts[2], facts[3], facts[4], facts[5], facts[6], facts[7], facts[8],
    facts[9] or '', redis.call('HGET', positions, id .. ' ' .. consumer) or first, facts[12] or '' }
end
return reply
