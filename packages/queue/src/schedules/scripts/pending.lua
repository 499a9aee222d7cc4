-- pending.lua - finds out whether the job of a schedule's last run still exists.
--
-- Defines lastOf, isPending

-- The instant of the last run in the field of a schedule, if it is stored; its timing is an object of JSON.
local function lastOf(field)
  return string.match(field, '}\t(%d+)')
end

-- Whether the job of that run waits or runs. A dead letter does neither.
local function isPending(jobs, dead, id, last)
  if not last or last == '' then return false end
  local job = id .. '@' .. last
  return redis.call('HEXISTS', jobs, job) == 1 and not redis.call('ZSCORE', dead, job)
end
