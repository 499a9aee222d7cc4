-- drain.lua - deletes the first jobs that wait.
-- Parents that fail with them become dead letters, and stay.
--
-- KEYS[1]  jobs      hash     id to header and payload
-- KEYS[2]  waiting   list     ids of ready jobs of priority 0
-- KEYS[3]  ranked    zset     ids of the other ready jobs, entries of delayed ones, or members of `suspended` or `grouped`
-- KEYS[4]  failures  hash     id to attempts, crashes, last error
-- KEYS[5]  delayed   zset     entry to the instant at which it is due, ms
-- KEYS[6]  wake      zset     markers that wake workers
-- KEYS[7]  unique    hash     key to its last job; without it no job has a successor
-- KEYS[8]  limits    hash     what keeps jobs from starting; `listened`
-- KEYS[9]  events    stream   recorded events
-- KEYS[10] dead      zset     id to the instant of its death
-- KEYS[11] meta      hash     counters
-- KEYS[12] families  hash     the open and ended children of each parent, see `flow.lua`
-- KEYS[13] grouped  zset    ready jobs that have a group, see `groups.lua`
-- KEYS[14] turns    zset    groups in the order of their turns
-- KEYS[15] held     zset    group and id of each job that has one of its group's places
-- KEYS[16] groups   hash    settings of groups
-- ARGV[1]  from      string   `waiting`, `ranked`, `suspended` or `grouped`
-- ARGV[2]  count     integer  how many to delete at most, up to 500; fewer if they have more than 4 MiB
-- ARGV[3]  group     string   of `grouped` only the jobs of this group; empty: of all
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
local grouped = KEYS[13]
local turns = KEYS[14]
local held = KEYS[15]
local groups = KEYS[16]
local from = ARGV[1]
local count = tonumber(ARGV[2])
local group = ARGV[3]

-- Libraries

failOnOtherType(failures, delayed, wake, dead, meta, families)
joinGroups(true, grouped, turns, held, groups)
listen(limits)
local isList = from == 'waiting'
local size = isList and redis.call('LLEN', waiting) or redis.call('ZCARD', ranked)
local entries = isList and redis.call('LRANGE', waiting, 0, count - 1) or {}
if group ~= '' then
  local low, high = '[' .. group .. ' ', '(' .. group .. '!'
  size = redis.call('ZLEXCOUNT', ranked, low, high)
  entries = redis.call('ZRANGE', ranked, low, high, 'BYLEX', 'LIMIT', 0, count)
elseif not isList then entries = redis.call('ZRANGE', ranked, 0, count - 1) end
local isPlaced = from == 'suspended' or from == 'grouped'
local ids, bytes = {}, 0
for i, member in ipairs(entries) do
  if bytes > 4194304 then break end
  local entry = isPlaced and placedEntry(member) or member
  ids[i] = idOf(entry)
  leaveGroup(entry, from == 'grouped' and '@' .. member or '')
  bytes = bytes + redis.call('HSTRLEN', jobs, ids[i])
end
if #ids == 0 then return { 0, 0 } end
allowWrites(ranked)
turnGroups(wake)
local gone = ids
if redis.call('EXISTS', unique, families) > 0 then
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
if isList then redis.call('LTRIM', waiting, #ids, -1)
elseif from ~= 'grouped' then redis.call('ZREM', ranked, unpack(entries, 1, #ids)) end
closeGroups()
for i = 1, lines and #gone or 0 do tell('removed', gone[i]) end
recordEvents(events)
return { #ids, size - #ids }
