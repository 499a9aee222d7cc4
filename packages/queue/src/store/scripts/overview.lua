-- overview.lua - counts the jobs of a queue in each state. Changes nothing.
--
-- KEYS[1]  jobs         hash  id to header and payload
-- KEYS[2]  waiting      list  ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset  ids of the other ready jobs
-- KEYS[4]  delayed      zset  entry to the instant at which it is due, ms
-- KEYS[5]  leases       zset  take id and entry to the instant at which the lease ends, ms
-- KEYS[6]  dead         zset  id to the instant of its death
-- KEYS[7]  meta         hash  counters
-- KEYS[8]  limits       hash  what keeps jobs from starting, see `limit.lua`
-- KEYS[9]  kept         zset  id of an ended job to the instant of its end, ms
-- KEYS[10] suspended    zset  ready jobs whose names are stopped, see `names.lua`
-- KEYS[11] grouped      zset  ready jobs that have a group, see `groups.lua`
-- KEYS[12] turns        zset  groups in the order of their turns
-- KEYS[13] groups       hash  settings of groups
--
-- Reply     {jobs, waiting, prioritised, delayed, leases, dead, now, nextDue, firstEnd, oldestDead, counters, ranks, paused, concurrency, rate, heldUntil, suspended, names, parents, oldestParent, grouped, groups, mayBegin, settings}:
--           instants
--           are text in epoch ms, empty if there is none; counters are completed, died, crashed, deadDropped, deadBytes and the number of kept jobs as text; ranks
--           are the first 100 priorities other than 0 of ready jobs, each with its number of jobs; paused is the instant of the pause;
--           concurrency and rate are empty if they are unlimited; names are those with limits: name, concurrency, instant of its pause, jobs
--           suspended, a blank behind each; parents are the jobs that wait for children, which count as delayed as well, and oldestParent when the first was
--           added or due; grouped counts jobs, groups counts groups with ready or active jobs, mayBegin counts groups that may start another job, and settings
--           `concurrency retry` of all groups, or empty
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local leases = KEYS[5]
local dead = KEYS[6]
local meta = KEYS[7]
local limits = KEYS[8]
local kept = KEYS[9]
local suspended = KEYS[10]
local grouped = KEYS[11]
local turns = KEYS[12]
local groups = KEYS[13]

-- Libraries

local time = redis.call('TIME')
local function first(key)
  return redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or ''
end
local counters = redis.call('HMGET', meta, 'completed', 'died', 'crashed', 'deadDropped', 'deadBytes')
local limited = redis.call('HMGET', limits, 'paused', 'concurrency', 'rate', 'heldUntil', 'names')
local band, ranks, low = 8589934592, {}, '-inf'
for _ = 1, 100 do
  local found = redis.call('ZRANGEBYSCORE', prioritised, low, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if not found[2] then break end
  local priority = math.floor(tonumber(found[2]) / band)
  local high = string.format('%.0f', (priority + 1) * band)
  ranks[#ranks + 1] = string.format('%d %d', priority, redis.call('ZCOUNT', prioritised, low, '(' .. high))
  low = high
end
local names = ''
for line, name in string.gmatch(limited[5] or '', '((%S+) %d+ %d+)') do
  local count = redis.call('ZLEXCOUNT', suspended, '[' .. name .. ' ', '(' .. name .. '!')
  names = names .. line .. string.format(' %d ', count)
end
for i = 1, 5 do counters[i] = counters[i] or '0' end
counters[6] = redis.call('ZCARD', kept)
return {
  redis.call('HLEN', jobs),
  redis.call('LLEN', waiting),
  redis.call('ZCARD', prioritised),
  redis.call('ZCARD', delayed),
  redis.call('ZCARD', leases),
  redis.call('ZCARD', dead),
  string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)),
  first(delayed),
  first(leases),
  first(dead),
  table.concat(counters, ' '),
  table.concat(ranks, ' '),
  limited[1] or '',
  limited[2] or '',
  limited[3] or '',
  limited[4] or '',
  redis.call('ZCARD', suspended),
  names,
  redis.call('ZCOUNT', delayed, string.format('%.0f', parked), '+inf'),
  redis.call('ZRANGEBYSCORE', delayed, string.format('%.0f', parked), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or '',
  redis.call('ZCARD', grouped),
  redis.call('ZCARD', turns),
  redis.call('ZCOUNT', turns, '-inf', '(4000000000000000'),
  redis.call('HGET', groups, '') or '',
}
