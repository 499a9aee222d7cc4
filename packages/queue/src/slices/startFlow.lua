-- startFlow.lua - moves a slice of a flow into the queue.
-- The first slice starts the flow. From then until its last slice has moved, `staged` names the flow and does not expire. Each slice
-- moves once: a repeated call, or a call with another number, changes nothing.
--
-- KEYS[1]  jobs         hash     id to header and payload
-- KEYS[2]  waiting      list     ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset     ids of the other ready jobs
-- KEYS[4]  delayed      zset     entry to the instant at which it is due, ms
-- KEYS[5]  wake         zset     markers that wake workers
-- KEYS[6]  limits       hash     what keeps jobs from starting; `listened`
-- KEYS[7]  events       stream   recorded events
-- KEYS[8]  families     hash     the open and ended children of each parent, see `flow.lua`
-- KEYS[9]  grouped      zset     ready jobs that have a group, see `groups.lua`
-- KEYS[10] turns        zset     groups in the order of their turns
-- KEYS[11] held         zset     group and id of each job that has one of its group's places
-- KEYS[12] groups       hash     settings of groups
-- KEYS[13] staged       hash     token, tab, number to a slice; token to the number of the next slice and of all, once the flow has started;
--                                the empty name to the tokens of these flows
-- ARGV[1]  token        string   of the flow
-- ARGV[2]  number       integer  of the slice; -1: it only looks
-- ARGV[3]  total        integer  how many slices the flow has
-- ARGV[4]  root         string   the root's id if its caller chose it: the flow starts only if there is no job of this id; else empty
--
-- Reply     {next, taken}  the number of the next slice, -1: the flow is not here; 1 if a job has the root's id: nothing was added
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local wake = KEYS[5]
local limits = KEYS[6]
local events = KEYS[7]
local families = KEYS[8]
local grouped = KEYS[9]
local turns = KEYS[10]
local held = KEYS[11]
local groups = KEYS[12]
local staged = KEYS[13]
local token = ARGV[1]
local number = tonumber(ARGV[2])
local total = ARGV[3]
local root = ARGV[4]

-- Libraries

local function fieldOf(slice) return token .. '\t' .. string.format('%d', slice) end
local function isStaged(slice) return redis.call('HEXISTS', staged, fieldOf(slice)) == 1 end

failOnOtherType(jobs, waiting, prioritised, delayed, wake, families)
joinGroups(true, grouped, turns, held, groups)
listen(limits)
local state = redis.call('HGET', staged, token)
local next, all = string.match(state or (isStaged(0) and '0 ' .. total or '-1 0'), '^(%S+) (%S+)$')
next, all = tonumber(next) or -1, tonumber(all) or 0
if next == -1 or next ~= number then return { next, 0 } end
if next == 0 then
  for slice = 1, all - 1 do
    if not isStaged(slice) then return { -1, 0 } end
  end
  if root ~= '' and redis.call('HEXISTS', jobs, root) == 1 then return { -1, 1 } end
end

local plan, rest = string.match(redis.call('HGET', staged, fieldOf(next)), '^(.-)\n\n(.*)$')
local list, at, isOurs = readPlan(plan, {}), 1, {}
for _, job in ipairs(list) do
  job.blob = string.sub(rest, at, at + job.bytes - 1)
  at = at + job.bytes
  isOurs[job.id] = true
end
local stamp = string.match(list[1].blob, '^%S+')
-- A parent of an earlier slice may have been deleted. Then nothing counts for it: a new job with its id has another stamp.
local function isParent(id)
  if isOurs[id] == nil then isOurs[id] = string.match(redis.call('HGET', jobs, id) or '', '^%S+') == stamp end
  return isOurs[id]
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local unfinished = redis.call('HGET', staged, '') or ''
storeJobs(jobs, waiting, prioritised, delayed, wake, families, groups, list, now, isParent)
if next == 0 then
  unfinished = unfinished .. (unfinished == '' and '' or ' ') .. token
  redis.call('HSET', staged, '', unfinished)
  -- A hundred years: PERSIST would need one more permission.
  redis.call('PEXPIRE', staged, 3153600000000)
end
turnGroups(wake)
closeGroups()
recordEvents(events)
local fields = { fieldOf(next) }
next = next + 1
if next < all then
  redis.call('HSET', staged, token, string.format('%d %d', next, all))
else
  local others = {}
  for other in string.gmatch(unfinished, '%S+') do
    if other ~= token then others[#others + 1] = other end
  end
  fields[2], fields[3] = token, #others == 0 and '' or nil
  if #others > 0 then redis.call('HSET', staged, '', table.concat(others, ' '))
  else redis.call('PEXPIRE', staged, 600000) end
end
redis.call('HDEL', staged, unpack(fields))
return { next < all and next or -1, 0 }
