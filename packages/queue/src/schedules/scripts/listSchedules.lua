-- listSchedules.lua - reads a page of the schedules, the next to run first, without payloads. Changes nothing.
--
-- KEYS[1]  schedules  hash     id to version, revision, runs left, and timing as JSON
-- KEYS[2]  templates  hash     id to header without its first word, and payload, of its jobs
-- KEYS[3]  upcoming   zset     id to the instant of its next run, ms; inf: it has ended
-- ARGV[1]  start      integer  how many to skip
-- ARGV[2]  count      integer  how many to read, at most 100
--
-- Reply     {now, total, first, id, at, schedule, head, …}  server time, epoch ms; how many there are; the score of the first, as text;
--           four for each of the page: score, its field, header of its jobs
local schedules = KEYS[1]
local templates = KEYS[2]
local upcoming = KEYS[3]
local start = tonumber(ARGV[1])
local count = tonumber(ARGV[2])

local time = redis.call('TIME')
local reply = {
  string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)),
  redis.call('ZCARD', upcoming),
  redis.call('ZRANGE', upcoming, 0, 0, 'WITHSCORES')[2] or '',
}
local found = redis.call('ZRANGE', upcoming, start, start + count - 1, 'WITHSCORES')
for i = 1, #found, 2 do
  local n = #reply
  reply[n + 1], reply[n + 2] = found[i], found[i + 1]
  reply[n + 3] = redis.call('HGET', schedules, found[i]) or ''
  reply[n + 4] = string.match(redis.call('HGET', templates, found[i]) or '', '^[^\n]*')
end
return reply
