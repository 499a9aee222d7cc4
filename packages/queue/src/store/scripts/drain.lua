-- drain.lua - deletes some of the jobs that wait, the first ones.
-- Parents that fail with them become dead letters, and stay.
--
-- KEYS[1]  jobs      hash     id to header and payload
-- KEYS[2]  waiting   list     ids of ready jobs of priority 0
-- KEYS[3]  ranked    zset     ids of the other ready jobs, entries of delayed ones, or members of `suspended`
-- KEYS[4]  failures  hash     id to attempts, crashes, last error
-- KEYS[5]  delayed   zset     entry to the instant at which it is due, ms
-- KEYS[6]  wake      zset     markers that wake workers
-- KEYS[7]  unique    hash     key to its last job; without it no job has a successor
-- KEYS[8]  limits    hash     what keeps jobs from beginning; `listened`
-- KEYS[9]  events    stream   what happened, for those who listen
-- KEYS[10] dead      zset     id to the instant of its death
-- KEYS[11] meta      hash     counters
-- KEYS[12] families  hash     the open and ended children of each parent, see `flow.lua`
-- ARGV[1]  from      string   `waiting`, `ranked` or `suspended`
-- ARGV[2]  count     integer  how many to delete at most, up to 500; fewer if they have more than 4 MiB
--
-- Reply     {n, left}  how many were deleted; how many wait there now
local jobs = KEYS[1]
local waiting = KEYS[2]
local ranked = KEYS[3]
local failures = KEYS[4]
local delayed = KEYS[5]
local wake = KEYS[6]
local unique = KEYS[7]
local limits = KEYS[8]
local events = KEYS[9]
local dead = KEYS[10]
local meta = KEYS[11]
local families = KEYS[12]
local from = ARGV[1]
local count = tonumber(ARGV[2])

-- Libraries

failOnOtherType(failures, delayed, wake, dead, meta, families)
listen(limits)
local isList = from == 'waiting'
local size = isList and redis.call('LLEN', waiting) or redis.call('ZCARD', ranked)
local entries = isList and redis.call('LRANGE', waiting, 0, count - 1) or redis.call('ZRANGE', ranked, 0, count - 1)
local ids, bytes = {}, 0
for i, entry in ipairs(entries) do
  if bytes > 4194304 then break end
  ids[i] = idOf(from == 'suspended' and suspendedEntry(entry) or entry)
  bytes = bytes + redis.call('HSTRLEN', jobs, ids[i])
end
if #ids == 0 then return { 0, 0 } end
local gone = ids
if redis.call('EXISTS', unique, families) > 0 then
  allowWrites(ranked)
  gone = {}
  for _, id in ipairs(ids) do
    if not settled[id] then
      releaseSuccessor(jobs, delayed, wake, id)
      settle(jobs, delayed, wake, failures, dead, meta, families, id, 'removed')
      gone[#gone + 1] = id
    end
  end
end
redis.call('HDEL', jobs, unpack(gone))
redis.call('HDEL', failures, unpack(gone))
closeFamilies(delayed, families)
if isList then redis.call('LTRIM', waiting, #ids, -1) else redis.call('ZREM', ranked, unpack(entries, 1, #ids)) end
for i = 1, lines and #gone or 0 do tell('removed', gone[i]) end
recordEvents(events)
return { #ids, size - #ids }
