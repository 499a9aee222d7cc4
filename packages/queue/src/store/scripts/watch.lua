-- watch.lua - wakes timekeepers.
-- Idle workers then read when the next lease ends. The script wakes them at most once per half a lease for the whole queue.
--
-- Needs wakeTimers
-- Defines watchLeases
local function watchLeases(meta, wake, now, leaseMs)
  local last = tonumber(redis.call('HGET', meta, 'watchedAt') or 0)
  if last <= now and now - last < leaseMs / 2 then return end
  redis.call('HSET', meta, 'watchedAt', string.format('%.0f', now))
  wakeTimers(wake)
end
