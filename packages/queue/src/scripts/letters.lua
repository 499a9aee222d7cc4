-- letters.lua - reads dead letters.
-- The oldest first.
--
-- KEYS[1]  jobs      hash     id to header and payload
-- KEYS[2]  failures  hash     id to attempts, crashes, last error
-- KEYS[3]  dead      zset     id to the instant of its death
-- ARGV[1]  start     integer  how many to leave out
-- ARGV[2]  count     integer  how many to read, at most 100
-- ARGV[3]  parts     string   `all`, or `ids`: blob and record are left empty
--
-- Reply     {id, diedAt, blob, record, …}  four for each
local jobs = KEYS[1]
local failures = KEYS[2]
local dead = KEYS[3]
local start = tonumber(ARGV[1])
local count = tonumber(ARGV[2])
local parts = ARGV[3]

local found = redis.call('ZRANGE', dead, start, start + count - 1, 'WITHSCORES')
local reply = {}
for i = 1, #found, 2 do
  local n = #reply
  reply[n + 1], reply[n + 2] = found[i], found[i + 1]
  reply[n + 3] = parts == 'all' and redis.call('HGET', jobs, found[i]) or ''
  reply[n + 4] = parts == 'all' and redis.call('HGET', failures, found[i]) or ''
end
return reply
