-- fire.lua - adds the jobs of due runs, and sets the next run of each schedule.
-- A schedule that differs from its row was changed or has already fired. The script does not change it.
--
-- KEYS[1]  jobs         hash    id to header and payload
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  delayed      zset    entry to the instant at which it is due, ms
-- KEYS[5]  wake         zset    markers that wake workers
-- KEYS[6]  schedules    hash    id to version, revision, runs left, timing as JSON, last run, and whether it is paused
-- KEYS[7]  templates    hash    id to header without its first word, and payload, of its jobs
-- KEYS[8]  upcoming     zset    id to the instant of its next run, ms; inf: it has ended, or is paused
-- KEYS[9]  limits       hash    what keeps jobs from starting; `listened`
-- KEYS[10] events       stream  recorded events
-- KEYS[11] dead         zset    id to the instant of its death
-- ARGV[1]  stamp        string  first word of the headers
-- ARGV[2]  plan         string  one line per schedule, eight parts between tabs: id, revision, score, score of the next run, runs left
--                               (empty: no bound), instants of the runs between commas, for each of which a job is added; its id
--                               is that of the schedule, `@`, and the instant. Then the mode. `skip`: adds none
--                               while the job of the last run exists, and stores the last of these instants. `demand`: a run on demand,
--                               done if its instant or a later one is stored. `demandSkip`: both. Then how many ms after their instants the jobs are due
--
-- Reply     a digit for each line: 1 it is done; 0 nothing was changed, unless the schedule is gone: then it leaves `upcoming`
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local wake = KEYS[5]
local schedules = KEYS[6]
local templates = KEYS[7]
local upcoming = KEYS[8]
local limits = KEYS[9]
local events = KEYS[10]
local dead = KEYS[11]
local stamp = ARGV[1]
local plan = ARGV[2]

-- Libraries

failOnOtherType(jobs, waiting, prioritised, wake, delayed)
listen(limits)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fields, ready, later, counts, scores, gone, reply = {}, {}, {}, {}, {}, {}, ''
for line in string.gmatch(plan, '[^\n]+') do
  local id, revision, at, next, left, runs, mode, wait =
    string.match(line, '^([^\t]+)\t([^\t]*)\t([^\t]+)\t([^\t]+)\t(%d*)\t([%d,]*)\t(%a*)\t(%d+)$')
  -- A damaged line does not keep other schedules from their runs.
  local isWhole = next == 'inf' or string.find(next or '', '^%d+$')
  id = id or ''
  local schedule = redis.call('HGET', schedules, id)
  local template = redis.call('HGET', templates, id)
  local score = redis.call('ZSCORE', upcoming, id)
  local head, own, stored, tail = string.match(schedule or '', '^(%d+\t([^\t]+)\t)(%d*)(\t.*)$')
  if not schedule then gone[#gone + 1] = id end
  local timing, last, paused = string.match(tail or '', '^(\t[^\t]*)\t?(%d*)(.*)$')
  local isRepeat = (mode == 'demand' or mode == 'demandSkip') and (tonumber(last) or -1) >= (tonumber(runs) or 0)
  local isBusy = (mode == 'skip' or mode == 'demandSkip') and runs ~= '' and isPending(jobs, dead, id, last)
  if isRepeat then runs, isBusy = '', false end
  if isWhole and template and own == revision and score == at and not isBusy then
    reply = reply .. '1'
    for run in string.gmatch(runs, '%d+') do
      local job, blob, due = id .. '@' .. run, stamp .. ' ' .. template, run + wait
      if redis.call('HEXISTS', jobs, job) == 0 then
        local isLater = wait ~= '0' and due > now
        if isLater then blob = expiringFrom(blob, due) or blob end
        fields[#fields + 1] = job
        fields[#fields + 1] = blob
        if isLater then
          later[#later + 1] = string.format('%.0f', math.min(due, behind - 1))
          later[#later + 1] = entryOfBlob(job, blob)
        else
          ready[#ready + 1] = entryOfBlob(job, blob)
        end
        tell('added', job, nameOf(blob) or '', isLater and 'delayed' or 'ready')
      end
      last = run
    end
    if left ~= '' or mode ~= '' and runs ~= '' then
      counts[#counts + 1] = id
      counts[#counts + 1] = head .. (left ~= '' and left or stored)
        .. (mode == '' and tail or timing .. '\t' .. last .. paused)
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
if #later > 0 then
  inBatches(later, function(...) redis.call('ZADD', delayed, ...) end)
  wakeTimers(wake)
end
inBatches(counts, function(...) redis.call('HSET', schedules, ...) end)
inBatches(scores, function(...) redis.call('ZADD', upcoming, ...) end)
if #gone > 0 then redis.call('ZREM', upcoming, unpack(gone)) end
recordEvents(events)
return reply
