-- letters.lua - reads dead letters.
-- The youngest first.
--
-- KEYS[1]  jobs      hash     id to header and payload
-- KEYS[2]  failures  hash     id to attempts, crashes, last error
-- KEYS[3]  dead      zset     id to the instant of its death
-- ARGV[1]  latest    string   epoch ms: only letters that died at this instant or before; `+inf`: all
-- ARGV[2]  start     integer  how many of these to skip
-- ARGV[3]  name      string   only letters of jobs of this name, as their headers have it; empty: all
-- ARGV[4]  count     integer  how many of them to read at most, up to 50; fewer if they have more than 1 MiB
--
-- Reply     {id, diedAt, blob, record, …}  four for each of at most 50 letters; the blob is empty if the letter has another name
local jobs = KEYS[1]
local failures = KEYS[2]
local dead = KEYS[3]
local latest = ARGV[1]
local start = ARGV[2]
local name = ARGV[3]
local count = tonumber(ARGV[4])

local found = redis.call('ZREVRANGEBYSCORE', dead, latest, '-inf', 'WITHSCORES', 'LIMIT', start, 50)
local reply, shown, bytes = {}, 0, 0
for i = 1, #found, 2 do
  if shown == count or bytes > 1048576 then break end
  local n = #reply
  local blob, record = redis.call('HGET', jobs, found[i]) or '\n', redis.call('HGET', failures, found[i]) or ''
  local isWanted = name == '' or string.match(blob, '^%S+ (%S+)') == name
  reply[n + 1], reply[n + 2] = found[i], found[i + 1]
  reply[n + 3], reply[n + 4] = isWanted and blob or '', isWanted and record or ''
  if isWanted then shown = shown + 1 end
  bytes = bytes + #blob + #record
end
return reply
