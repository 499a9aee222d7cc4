-- branches.lua - stores jobs of flows.
-- A plan has one line per job: its id, then a tab before each word of the job; see `addFlow.lua`.
--
-- Needs behind, parked, optionOf, decoded, entryOf, nameOf, makeReady, inBatches, wakeWorker, wakeTimers, enterGroups, tell
-- Defines readPlan, takenOf, storeJobs

local function readPlan(plan, blobs)
  local list = {}
  for id, rest in string.gmatch(plan, '([^\n\t]+)([^\n]*)') do
    local job = { id = id, blob = blobs[#list + 1] }
    for name, value in string.gmatch(rest, '\t(%a+)=?([^\t]*)') do job[name] = value end
    list[#list + 1] = job
  end
  return list
end

-- The first id that another job has, or that is in `added`. Nil: there is none.
local function takenOf(jobs, list, added)
  for _, job in ipairs(list) do
    if job.ifNew and (added[job.id] or redis.call('HEXISTS', jobs, job.id) == 1) then return job.id end
  end
end

-- Call this after all reads, and before `turnGroups`. `isParent` decides whether a parent counts a child; without it, every parent does.
local function storeJobs(jobs, waiting, prioritised, delayed, wake, families, groups, list, now, isParent)
  local earliest = tonumber(redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2] or nil) or math.huge
  local fields, open, later, ready, isEarlier = {}, {}, {}, {}, false
  local function append(all, ...)
    for _, value in ipairs({ ... }) do all[#all + 1] = value end
  end
  for _, job in ipairs(list) do
    local id, blob = job.id, job.blob
    local entry = entryOf(id, tonumber(job.priority or 0), job.group)
    if job.group and redis.call('HEXISTS', groups, '') == 0 then redis.call('HSET', groups, '', '0 wait 0 0') end
    local due = math.min(job.delay and now + job.delay or tonumber(job.due or now), behind - 1)
    local state = due > now and 'delayed' or 'ready'
    append(fields, id, blob)
    for number, parent in string.gmatch(optionOf(blob, 'flow'), ',%l(%d+):([^,]+)') do
      parent = decoded(parent)
      if not isParent or isParent(parent) then append(open, parent .. '\t' .. number, id) end
    end
    if job.open then
      state = 'waiting-for-children'
      append(open, id, job.open)
      append(later, string.format('%.0f', math.max(due, now) + parked), entry)
    elseif due > now then
      append(later, string.format('%.0f', due), entry)
      isEarlier = isEarlier or due < earliest
    elseif job.front then
      if job.group then enterGroups({ entry }, true) else redis.call('LPUSH', waiting, id) end
      wakeWorker(wake)
    else
      append(ready, entry)
    end
    tell('added', id, nameOf(blob), state)
  end
  inBatches(fields, function(...) redis.call('HSET', jobs, ...) end)
  inBatches(open, function(...) redis.call('HSET', families, ...) end)
  inBatches(later, function(...) redis.call('ZADD', delayed, ...) end)
  if #ready > 0 then
    makeReady(waiting, prioritised, enterGroups(ready, false), false)
    wakeWorker(wake)
  end
  if isEarlier then wakeTimers(wake) end
end
