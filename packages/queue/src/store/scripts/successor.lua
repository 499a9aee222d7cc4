-- successor.lua - lets a job start once another has ended.
-- The header of the other has the id of its successor.
--
-- Needs behind, optionOf, withOption, entryOfBlob, wakeTimers
-- Defines clock, expiringFrom, heldBack, letGo, releaseSuccessor

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The blob of a job that expires, with its time counted from this due instant. Nil: the job does not expire.
local function expiringFrom(blob, at)
  local wait = string.match(optionOf(blob, 'expires') or '', '^%d+')
  return wait and withOption(blob, 'expires', wait .. '@' .. string.format('%.0f', at))
end

-- The entry, blob and due instant of a job to whose score this sum was added. Nil: there is no such job.
local function heldBack(jobs, delayed, id, sum)
  local blob = id and redis.call('HGET', jobs, id)
  local entry = blob and entryOfBlob(id, blob)
  local due = (entry and tonumber(redis.call('ZSCORE', delayed, entry) or 0) or 0) - sum
  if due >= 0 then return entry, blob, due end
end

local function letGo(jobs, delayed, wake, id, entry, blob, due)
  local later = expiringFrom(blob, math.max(due, clock()))
  if later then redis.call('HSET', jobs, id, later) end
  redis.call('ZADD', delayed, string.format('%.0f', due), entry)
  wakeTimers(wake)
end

-- Call this before the job is deleted.
local function releaseSuccessor(jobs, delayed, wake, id)
  local next = optionOf(redis.call('HGET', jobs, id), 'successor')
  local entry, blob, due = heldBack(jobs, delayed, next, behind)
  if entry then letGo(jobs, delayed, wake, next, entry, blob, due) end
end
