-- status.lua - a channel at one instant. Changes nothing.
--
-- KEYS[1]   channel       hash   the record of the channel
-- KEYS[2]   files         hash   `<id>:<fact>` of each file
-- KEYS[3]   live          zset   file id, scored by itself
-- KEYS[4]   consumers     hash   consumer to `fence after op`
-- KEYS[5]   seen          zset   consumer to the ms of its last sign
-- KEYS[6]   positions     hash   `<id> <consumer>` to `seq chunk state position cause`
-- KEYS[7]   leases        zset   `<id> <fence>` to the ms at which the reservation ends
-- ARGV[1]  most       integer  at most so many files; 0: all
--
-- Reply     {} without a channel; else {epoch, limit, used, reserved, closed, now, number of files, shippers, {file, …}, {consumer, …}}
--           a file {id, name, state, codec, chunks, freed, text, stored, lines, fault, record of each consumer in order …}
--           a consumer {name, after, ms of its last sign}
local channel = KEYS[1]
local files = KEYS[2]
local live = KEYS[3]
local consumers = KEYS[4]
local seen = KEYS[5]
local positions = KEYS[6]
local leases = KEYS[7]
local most = tonumber(ARGV[1])

-- Libraries

local state = redis.call('HMGET', channel, 'epoch', 'limit', 'used', 'reserved', 'closed')
if not state[1] then return {} end
local all = redis.call('HGETALL', consumers)
local consumerReply, fileReply = {}, {}
for i = 1, #all, 2 do
  consumerReply[#consumerReply + 1] =
    { all[i], string.match(all[i + 1], ' (%d+)'), redis.call('ZSCORE', seen, all[i]) or '0' }
end
for _, id in ipairs(redis.call('ZRANGE', live, 0, most - 1)) do
  local file = { id }
  for i, fact in ipairs(redis.call('HMGET', files, id .. ':name', id .. ':state', id .. ':codec', id .. ':chunks',
    id .. ':freed', id .. ':text', id .. ':stored', id .. ':lines', id .. ':fault')) do
    file[i + 1] = fact or ''
  end
  for _, consumer in ipairs(consumerReply) do
    file[#file + 1] = redis.call('HGET', positions, id .. ' ' .. consumer[1]) or ''
  end
  fileReply[#fileReply + 1] = file
end
local now = readClock()
-- Reservations that have ended do not count, though the next shipper has yet to return them.
local reserved = tonumber(state[4]) or 0
for _, lease in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now)) do
  reserved = reserved - tonumber(redis.call('HGET', channel, 'reserved ' .. lease) or '0')
end
return { state[1], state[2] or '0', state[3] or '0', reserved, state[5] and 1 or 0, now, redis.call('ZCARD', live),
  #redis.call('ZRANGEBYSCORE', leases, '(' .. string.format('%.0f', now), '+inf'), fileReply, consumerReply }
