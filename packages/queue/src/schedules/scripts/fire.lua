-- fire.lua - adds the jobs of due runs, and sets the next run of each schedule.
-- A schedule that is not as its row has it was changed, or has fired already: it stays as it is.
--
-- KEYS[1]  jobs         hash    id to header and payload
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  wake         zset    markers that wake workers
-- KEYS[5]  schedules    hash    id to version, revision, runs left, and timing as JSON
-- KEYS[6]  templates    hash    id to header without its first word, and payload, of its jobs
-- KEYS[7]  upcoming     zset    id to the instant of its next run, ms; inf: it has ended
-- KEYS[8]  limits       hash    what keeps jobs from beginning; `listened`
-- KEYS[9]  events       stream  what happened, for those who listen
-- ARGV[1]  stamp        string  first word of the headers
-- ARGV[2]  plan         string  one line per schedule, six parts between tabs: id, revision, score, score of the next run, runs left
--                               (empty: no bound), instants of the runs between commas, for each of which a job is added; its id
--                               is that of the schedule, `@`, and the instant
--
-- Reply     a digit for each line: 1 it is done; 0 nothing was changed, unless the schedule is gone: then it leaves `upcoming`
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local wake = KEYS[4]
local schedules = KEYS[5]
local templates = KEYS[6]
local upcoming = KEYS[7]
local limits = KEYS[8]
local events = KEYS[9]
local stamp = ARGV[1]
local plan = ARGV[2]

-- Libraries

redis.call('HLEN', jobs)
redis.call('LLEN', waiting)
redis.call('ZCARD', prioritised)
redis.call('ZCARD', wake)
listen(limits)
local fields, ready, counts, scores, gone, reply = {}, {}, {}, {}, {}, ''
for line in string.gmatch(plan, '[^\n]+') do
  local id, revision, at, next, left, runs = string.match(line, '^([^\t]+)\t([^\t]*)\t([^\t]+)\t([^\t]+)\t(%d*)\t([%d,]*)$')
  -- A line of what was stored damaged keeps no other schedule from its run.
  local isWhole = next == 'inf' or string.find(next or '', '^%d+$')
  id = id or ''
  local schedule = redis.call('HGET', schedules, id)
  local template = redis.call('HGET', templates, id)
  local score = redis.call('ZSCORE', upcoming, id)
  local head, own, tail = string.match(schedule or '', '^(%d+\t([^\t]+)\t)%d*(\t.*)$')
  if not schedule then gone[#gone + 1] = id end
  if isWhole and template and own == revision and score == at then
    reply = reply .. '1'
    for run in string.gmatch(runs, '%d+') do
      local job, blob = id .. '@' .. run, stamp .. ' ' .. template
      if redis.call('HEXISTS', jobs, job) == 0 then
        fields[#fields + 1] = job
        fields[#fields + 1] = blob
        ready[#ready + 1] = entryOfBlob(job, blob)
        tell('added', job, nameOf(blob) or '', 'ready')
      end
    end
    if left ~= '' then
      counts[#counts + 1] = id
      counts[#counts + 1] = head .. left .. tail
    end
    scores[#scores + 1] = next
    scores[#scores + 1] = id
  else
    reply = reply .. '0'
  end
end
inBatches(fields, function(...) redis.call('HSET', jobs, ...) end)
if #ready > 0 then
  makeReady(waiting, prioritised, ready, false)
  wakeWorker(wake)
end
inBatches(counts, function(...) redis.call('HSET', schedules, ...) end)
inBatches(scores, function(...) redis.call('ZADD', upcoming, ...) end)
if #gone > 0 then redis.call('ZREM', upcoming, unpack(gone)) end
recordEvents(events)
return reply
