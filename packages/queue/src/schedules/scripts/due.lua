-- due.lua - reads the schedules whose next run is due. Changes nothing.
--
-- KEYS[1]  schedules  hash     id to version, revision, runs left, and timing as JSON
-- KEYS[2]  templates  hash     id to header without its first word, and payload, of its jobs
-- KEYS[3]  upcoming   zset     id to the instant of its next run, ms; inf: it has ended
-- KEYS[4]  jobs       hash     id to header and payload
-- KEYS[5]  dead       zset     id to the instant of its death
-- ARGV[1]  skip       integer  how many due schedules to leave out
-- ARGV[2]  count      integer  how many to read
--
-- Reply     {now, next, id, at, schedule, bytes, …}  server time, epoch ms; the first instant that is not due, as text, empty: there is
--           none; four for each due schedule: score, its field (empty: it is gone), size of its template,
--           and ` busy` if the job of its last run still exists and is not dead
local schedules = KEYS[1]
local templates = KEYS[2]
local upcoming = KEYS[3]
local jobs = KEYS[4]
local dead = KEYS[5]
local skip = ARGV[1]
local count = ARGV[2]

-- Libraries

local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local later = redis.call('ZRANGEBYSCORE', upcoming, '(' .. now, '(inf', 'WITHSCORES', 'LIMIT', 0, 1)
local reply = { now, later[2] or '' }
local found = redis.call('ZRANGEBYSCORE', upcoming, '-inf', now, 'WITHSCORES', 'LIMIT', skip, count)
for i = 1, #found, 2 do
  local n = #reply
  reply[n + 1], reply[n + 2] = found[i], found[i + 1]
  reply[n + 3] = redis.call('HGET', schedules, found[i]) or ''
  local isBusy = isPending(jobs, dead, found[i], lastOf(reply[n + 3]))
  reply[n + 4] = redis.call('HSTRLEN', templates, found[i]) .. (isBusy and ' busy' or '')
end
return reply
