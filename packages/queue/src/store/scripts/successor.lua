-- successor.lua - lets a job begin once another has ended.
-- The header of the other has the id of its successor. In `delayed` the score of a successor is its due instant plus
-- `behind`, later than any other.
--
-- Needs optionOf, withOption, entryOfBlob, wakeTimers
-- Defines behind, expiringFrom, releaseSuccessor

local behind = 1000000000000000

-- The blob of a job that expires, which does so after it is due at this instant; nil: it does not expire.
local function expiringFrom(blob, at)
  local wait = string.match(optionOf(blob, 'expires') or '', '^%d+')
  return wait and withOption(blob, 'expires', wait .. '@' .. string.format('%.0f', at))
end

-- Called before the job is deleted.
local function releaseSuccessor(jobs, delayed, wake, id)
  local next = optionOf(redis.call('HGET', jobs, id), 'successor')
  local blob = next and redis.call('HGET', jobs, next)
  local entry = blob and entryOfBlob(next, blob)
  local score = entry and tonumber(redis.call('ZSCORE', delayed, entry) or 0) or 0
  if score < behind then return end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local later = expiringFrom(blob, math.max(score - behind, now))
  if later then redis.call('HSET', jobs, next, later) end
  redis.call('ZADD', delayed, string.format('%.0f', score - behind), entry)
  wakeTimers(wake)
end
