-- successor.lua - lets a job begin once another has ended.
-- The header of the other has the id of its successor as the word `n`. In `delayed` the score of a successor is its due instant plus
-- `behind`, later than any other.
--
-- Needs entryOfBlob, wakeTimers
-- Defines behind, releaseSuccessor

local behind = 1000000000000000

-- Called before the job is deleted.
local function releaseSuccessor(jobs, delayed, wake, id)
  local next = string.match(redis.call('HGET', jobs, id) or '', '^%S+ %S+[^\n]- n(%S+)')
  local entry = next and entryOfBlob(next, redis.call('HGET', jobs, next) or '')
  local score = entry and tonumber(redis.call('ZSCORE', delayed, entry) or 0) or 0
  if score < behind then return end
  redis.call('ZADD', delayed, string.format('%.0f', score - behind), entry)
  wakeTimers(wake)
end
