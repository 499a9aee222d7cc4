-- page.lua - reads a page of ids of a BullMQ queue, the next ones first. Changes nothing.
--
-- KEYS[1]  listed  any      a list, the next one last; or a sorted set
-- ARGV[1]  kind    string   `list` or `zset`
-- ARGV[2]  start   integer  how many to leave out
-- ARGV[3]  count   integer  how many to read
--
-- Reply     {id, score, …}  two for each; the score of a list is 0
local listed = KEYS[1]
local kind = ARGV[1]
local start = tonumber(ARGV[2])
local count = tonumber(ARGV[3])

if kind == 'zset' then return redis.call('ZRANGE', listed, start, start + count - 1, 'WITHSCORES') end
local found = redis.call('LRANGE', listed, -(start + count), -(start + 1))
local reply = {}
for i = #found, 1, -1 do
  reply[#reply + 1] = found[i]
  reply[#reply + 1] = '0'
end
return reply
