-- park.lua - adds children to an active job, which then waits for them.
-- Its lease ends, no attempt is counted, and it frees its place in its group. A repeated call changes nothing.
--
-- KEYS[1]  jobs         hash    id to header and payload
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  delayed      zset    entry to the instant at which it is due, ms
-- KEYS[5]  leases       zset    take id and entry to the instant at which the lease ends, ms
-- KEYS[6]  wake         zset    markers that wake workers
-- KEYS[7]  failures     hash    id to attempts, crashes, last error
-- KEYS[8]  revoked      zset    leases that ended without their holder
-- KEYS[9]  limits       hash    what keeps jobs from starting; `listened`
-- KEYS[10] events       stream  recorded events
-- KEYS[11] named        zset    name and member of `leases`, of active jobs whose names have a concurrency, see `names.lua`
-- KEYS[12] families     hash    the open and ended children of each parent, see `flow.lua`
-- KEYS[13] grouped      zset    ready jobs that have a group, see `groups.lua`
-- KEYS[14] turns        zset    groups in the order of their turns
-- KEYS[15] held         zset    group and id of each job that has one of its group's places
-- KEYS[16] groups       hash    settings of groups
-- ARGV[1]  member       string  of `leases`
-- ARGV[2]  children     integer how many children it gets
-- ARGV[3]  plan         string  the jobs below it, see `branches.lua`
-- ARGV[n]  blobs        string  header and payload of each. Its children are numbered from 0
--
-- Reply     {refused, taken}  the member if its lease had ended, with a tab and `cancelled` if the job was cancelled; an id that another
--           job has: nothing was added, and the job is still leased. Both empty: it waits
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local leases = KEYS[5]
local wake = KEYS[6]
local failures = KEYS[7]
local revoked = KEYS[8]
local limits = KEYS[9]
local events = KEYS[10]
local named = KEYS[11]
local families = KEYS[12]
local grouped = KEYS[13]
local turns = KEYS[14]
local held = KEYS[15]
local groups = KEYS[16]
local member = ARGV[1]
local children = tonumber(ARGV[2])
local plan = ARGV[3]
local blobs = { unpack(ARGV, 4) }

-- Libraries

failOnOtherType(waiting, prioritised, delayed, wake, failures, revoked, named, families)
joinGroups(true, grouped, turns, held, groups)
listen(limits)
local id = idOf(leasedEntry(member))
local blob = redis.call('HGET', jobs, id)
-- Without a lease, and without a revoked one, this call has arrived before.
if not redis.call('ZSCORE', leases, member) then return { revokedAs(revoked, member) or '', '' } end
if not blob then return { member, '' } end
local list = readPlan(plan, blobs)
local taken = takenOf(jobs, list, {})
if taken then return { '', taken } end

-- The first number without a record: its earlier children have the numbers before it.
local first, last = 0, 1
local function isUsed(number)
  return redis.call('HEXISTS', families, id .. '\t' .. string.format('%d', number)) == 1
end
while isUsed(last - 1) do first, last = last, 2 * last end
while first < last - 1 do
  local middle = math.floor((first + last) / 2)
  if isUsed(middle - 1) then first = middle else last = middle end
end
if first > 0 then
  for _, job in ipairs(list) do
    local flow = string.gsub(optionOf(job.blob, 'flow'), ',(%l)(%d+):([^,]+)', function(policy, number, parent)
      if decoded(parent) == id then return string.format(',%s%d:%s', policy, number + first, parent) end
    end)
    job.blob = withOption(job.blob, 'flow', flow)
  end
end

local open = tonumber(redis.call('HGET', families, id) or 0) or 0
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local entry = entryOfBlob(id, blob)
-- It has started, so it no longer expires.
local record = optionOf(blob, 'expires') and (redis.call('HGET', failures, id) or 'fresh')
storeJobs(jobs, waiting, prioritised, delayed, wake, families, groups, list, now)
vacate(entry)
redis.call('HSET', families, id, string.format('%.0f', open + children))
redis.call('ZADD', delayed, string.format('%.0f', now + parked), entry)
if not optionOf(blob, 'flow') then redis.call('HSET', jobs, id, withOption(blob, 'flow', '')) end
if record and string.find(record, 'fresh$') then redis.call('HSET', failures, id, '0\t0\t') end
tell('delayed', id)
-- Under a limit another job may start.
wakeWorker(wake)
turnGroups(wake)
redis.call('ZREM', leases, member)
redis.call('ZREM', named, (nameOf(blob) or '') .. ' ' .. member)
closeGroups()
recordEvents(events)
return { '', '' }
