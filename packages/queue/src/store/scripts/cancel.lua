-- cancel.lua - ends a job, wherever it is.
-- If a worker has the job, its lease is revoked: the worker can no longer end the job. The worker is notified by its next heartbeat, or by a push.
--
-- KEYS[1]  jobs         hash    id to header and payload
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  delayed      zset    entry to the instant at which it is due, ms
-- KEYS[5]  leases       zset    take id and entry to the instant at which the lease ends, ms
-- KEYS[6]  failures     hash    id to attempts, crashes, last error
-- KEYS[7]  dead         zset    id to the instant of its death
-- KEYS[8]  revoked      zset    leases that ended without their holder
-- KEYS[9]  wake         zset    markers that wake workers
-- KEYS[10]  limits      hash    what keeps jobs from starting; `listened`
-- KEYS[11]  events      stream  recorded events
-- KEYS[12] suspended    zset    ready jobs whose names are stopped, see `names.lua`
-- KEYS[13] named        zset    name and member of `leases`, of active jobs whose names have a concurrency, see `names.lua`
-- KEYS[14] meta         hash    counters
-- KEYS[15] families     hash    the open and ended children of each parent, see `flow.lua`
-- KEYS[16] grouped  zset    ready jobs that have a group, see `groups.lua`
-- KEYS[17] turns    zset    groups in the order of their turns
-- KEYS[18] held     zset    group and id of each job that has one of its group's places
-- KEYS[19] groups   hash    settings of groups
-- KEYS[n]  replies      hash    of the caller, only if the job was called: id to the outcome of the job
-- ARGV[1]  id           string  of the job
-- ARGV[2]  header       string  its header line, if a later job may have the same id; else empty
-- ARGV[3]  cursor       string  `0`, then the last reply's cursor: the leases are searched page by page
-- ARGV[4]  channel      string  of the caller's inbox, empty if the job was not called
-- ARGV[5]  caller       string  its name there
-- ARGV[6]  pushes       string  the channel on which workers learn of cancelled jobs
--
-- Reply     {outcome, cursor}  `removed` it was ready or delayed; `cancelled` it was active; `none` there is no such job; `dead` it is a
--           dead letter; `elsewhere` it was not found, or has another header. A cursor that is not 0: it may be on the next page. Only
--           the first two changed something
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local leases = KEYS[5]
local failures = KEYS[6]
local dead = KEYS[7]
local revoked = KEYS[8]
local wake = KEYS[9]
local limits = KEYS[10]
local events = KEYS[11]
local suspended = KEYS[12]
local named = KEYS[13]
local meta = KEYS[14]
local families = KEYS[15]
local grouped = KEYS[16]
local turns = KEYS[17]
local held = KEYS[18]
local groups = KEYS[19]
local replies = { unpack(KEYS, 20) }
local id = ARGV[1]
local header = ARGV[2]
local cursor = ARGV[3]
local channel = ARGV[4]
local caller = ARGV[5]
local pushes = ARGV[6]

-- Libraries

failOnOtherType(failures, revoked, wake, named, meta, families)
joinGroups(true, grouped, turns, held, groups)
listen(limits)
for _, key in ipairs(replies) do redis.call('HLEN', key) end
local blob = redis.call('HGET', jobs, id)
if not blob then return { 'none', '0' } end
if redis.call('ZSCORE', dead, id) then return { 'dead', '0' } end
if header ~= '' and string.match(blob, '^[^\n]*') ~= header then return { 'elsewhere', '0' } end
local entry = entryOfBlob(id, blob)
local page = redis.call('ZSCAN', leases, cursor, 'COUNT', 2000)
local member, place
for i = 1, #page[2], 2 do
  if leasedEntry(page[2][i]) == entry then member = page[2][i] end
end
if not member then
  if page[1] ~= '0' then return { 'elsewhere', page[1] } end
  place = placeOf(waiting, prioritised, delayed, suspended, id, entry, blob)
  if not place then return { 'elsewhere', '0' } end
end

allowWrites(leases)
releaseSuccessor(jobs, delayed, wake, id)
settle(jobs, delayed, wake, failures, dead, meta, families, id, member and 'cancelled' or 'removed')
leaveGroup(entry, place or '')
turnGroups(wake)
for _, key in ipairs(replies) do
  redis.call('HSET', key, id, 'cancelled')
  redis.call('PEXPIRE', key, 600000)
end
if member then
  -- Under a limit another job may start.
  redis.call('ZADD', wake, 0, 'job')
  local time = redis.call('TIME')
  revoke(revoked, time[1] * 1000 + math.floor(time[2] / 1000), member, true)
  redis.call('ZREM', leases, member)
  redis.call('ZREM', named, (nameOf(blob) or '') .. ' ' .. member)
else
  leave(place, waiting, prioritised, delayed, suspended, id, entry)
end
redis.call('HDEL', failures, id)
redis.call('HDEL', jobs, id)
closeFamilies(delayed, families)
closeGroups()
tell(member and 'cancelled' or 'removed', id, nameOf(blob))
recordEvents(events)
-- Publishing is only a hint, so an error is ignored: the user may lack the permission.
if channel ~= '' then redis.pcall('PUBLISH', channel, caller .. '\t' .. id) end
if member then redis.pcall('PUBLISH', pushes, member) end
return { member and 'cancelled' or 'removed', '0' }
