-- redrive.lua - moves dead letters.
-- They go to the end of the queue or to the delayed jobs, like new jobs, or they are dropped. A parent waits for its open children.
--
-- KEYS[1]  jobs         hash    id to header and payload
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  delayed      zset    entry to the instant at which it is due, ms
-- KEYS[5]  wake         zset    markers that wake workers
-- KEYS[6]  failures     hash    id to attempts, crashes, last error
-- KEYS[7]  dead         zset    id to the instant of its death
-- KEYS[8]  meta         hash    counters
-- KEYS[9]  limits       hash    what keeps jobs from starting; `listened`
-- KEYS[10]  events      stream  recorded events
-- KEYS[11] families     hash    the open and ended children of each parent, see `flow.lua`
-- KEYS[12] grouped  zset    ready jobs that have a group, see `groups.lua`
-- KEYS[13] turns    zset    groups in the order of their turns
-- KEYS[14] held     zset    group and id of each job that has one of its group's places
-- KEYS[15] groups   hash    settings of groups
-- ARGV[1]  verb         string  `redrive` or `drop`
-- ARGV[2]  ids          string  one per line, at most 100; empty: of the 100 oldest letters that died before this operation
-- ARGV[3]  begun        string  server time at which the operation started, epoch ms; empty: now
-- ARGV[4]  spreadMs     integer  each job waits for a random part of this time; 0: no job waits
--
-- Reply     {n, begun}  how many dead letters were moved or dropped; when the operation started
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local wake = KEYS[5]
local failures = KEYS[6]
local dead = KEYS[7]
local meta = KEYS[8]
local limits = KEYS[9]
local events = KEYS[10]
local families = KEYS[11]
local grouped = KEYS[12]
local turns = KEYS[13]
local held = KEYS[14]
local groups = KEYS[15]
local verb = ARGV[1]
local ids = ARGV[2]
local begun = ARGV[3]
local spreadMs = tonumber(ARGV[4])

-- Libraries

failOnOtherType(jobs, waiting, prioritised, delayed, wake, failures, meta, families)
joinGroups(true, grouped, turns, held, groups)
listen(limits)
allowWrites(dead)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if begun == '' then begun = string.format('%.0f', now) end
if ids == '' then ids = table.concat(redis.call('ZRANGEBYSCORE', dead, '-inf', begun, 'LIMIT', 0, 100), '\n') end
math.randomseed(time[2])
local letters, moved, later, dropped, forgotten, bytes = {}, {}, {}, {}, {}, 0
for id in string.gmatch(ids, '[^\n]+') do
  if not letters[id] and redis.call('ZSCORE', dead, id) then
    letters[id] = true
    letters[#letters + 1] = id
    bytes = bytes + sizeOf(jobs, failures, id)
    local blob = verb == 'redrive' and redis.call('HGET', jobs, id)
    -- A job without a record may have expired: this one was taken.
    if blob and optionOf(blob, 'expires') then redis.call('HSET', failures, id, '0\t0\t')
    else forgotten[#forgotten + 1] = id end
    local sum = tonumber(redis.call('HGET', families, id) or 0) == 0 and 0 or parked
    local waits = spreadMs + sum > 0
    if blob and waits then
      later[#later + 1] = string.format('%.0f', now + math.random() * spreadMs + sum)
      later[#later + 1] = entryOfBlob(id, blob)
    elseif blob then moved[#moved + 1] = entryOfBlob(id, blob)
    else
      dropped[#dropped + 1] = id
      disband(families, id)
    end
    tell(not blob and 'removed' or waits and 'delayed' or 'ready', id)
  end
end
if #letters == 0 then return { 0, begun } end
-- Not `-bytes`: for letters without data it is -0, which Redis rejects.
redis.call('HINCRBY', meta, 'deadBytes', 0 - bytes)
if #moved > 0 then
  makeReady(waiting, prioritised, enterGroups(moved, false), false)
  wakeWorker(wake)
  turnGroups(wake)
end
if #later > 0 then
  redis.call('ZADD', delayed, unpack(later))
  wakeTimers(wake)
end
redis.call('ZREM', dead, unpack(letters))
if #forgotten > 0 then redis.call('HDEL', failures, unpack(forgotten)) end
if #dropped > 0 then redis.call('HDEL', jobs, unpack(dropped)) end
closeFamilies(delayed, families)
closeGroups()
recordEvents(events)
return { #letters, begun }
