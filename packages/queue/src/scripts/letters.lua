-- letters.lua - reads dead letters.
-- The youngest first.
--
-- KEYS[1]  jobs      hash     id to header and payload
-- KEYS[2]  failures  hash     id to attempts, crashes, last error
-- KEYS[3]  dead      zset     id to the instant of its death
-- ARGV[1]  latest    string   epoch ms: only letters that died at this instant or before; `+inf`: all
-- ARGV[2]  start     integer  how many of these to skip
-- ARGV[3]  name      string   only letters of jobs of this name, as their headers have it; empty: all
--
-- Reply     {id, diedAt, blob, record, …}  four for each of at most 50; the blob of a letter of another name is empty
local jobs = KEYS[1]
local failures = KEYS[2]
local dead = KEYS[3]
local latest = ARGV[1]
local start = ARGV[2]
local name = ARGV[3]

local found = redis.call('ZREVRANGEBYSCORE', dead, latest, '-inf', 'WITHSCORES', 'LIMIT', start, 50)
local reply = {}
for i = 1, #found, 2 do
  local n = #reply
  local blob = redis.call('HGET', jobs, found[i]) or '\n'
  reply[n + 1], reply[n + 2] = found[i], found[i + 1]
  reply[n + 3] = (name == '' or string.match(blob, '^%S+ (%S+)') == name) and blob or ''
  reply[n + 4] = redis.call('HGET', failures, found[i]) or ''
end
return reply
