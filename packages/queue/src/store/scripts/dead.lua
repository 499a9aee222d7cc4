-- dead.lua - keeps dead letters.
-- Their count, age and bytes are bounded.
--
-- Defines sizeOf, makeDead, overdueDead

local function sizeOf(jobs, failures, id)
  return redis.call('HSTRLEN', jobs, id) + redis.call('HSTRLEN', failures, id)
end

-- Call this after the job's failure was written.
local function makeDead(jobs, failures, dead, meta, id, now)
  redis.call('ZADD', dead, string.format('%.0f', now), id)
  redis.call('HINCRBY', meta, 'deadBytes', sizeOf(jobs, failures, id))
  redis.call('HINCRBY', meta, 'died', 1)
end

-- The dead letters beyond `bounds`, which are `maxCount maxAgeMs maxBytes`: at most 100, oldest first. They are counted as dropped; the
-- calling script removes them at its end. Also returns how many of them died less than an hour ago.
local function overdueDead(jobs, failures, dead, meta, bounds, now)
  local maxCount, maxAgeMs, maxBytes = string.match(bounds, '(%d+) (%d+) (%d+)$')
  local count = redis.call('ZCARD', dead) - maxCount
  local stored = tonumber(redis.call('HGET', meta, 'deadBytes') or 0)
  local ids, bytes, young = {}, 0, 0
  local oldest = redis.call('ZRANGE', dead, 0, 99, 'WITHSCORES')
  for i = 1, #oldest, 2 do
    local isOver = count > #ids or stored - bytes > tonumber(maxBytes)
    if not isOver and tonumber(oldest[i + 1]) > now - maxAgeMs then break end
    ids[#ids + 1] = oldest[i]
    if tonumber(oldest[i + 1]) > now - 3600000 then young = young + 1 end
    bytes = bytes + sizeOf(jobs, failures, oldest[i])
  end
  if #ids > 0 then
    -- Not `-bytes`: for letters without data it is -0, which Redis rejects.
    redis.call('HINCRBY', meta, 'deadBytes', 0 - bytes)
    redis.call('HINCRBY', meta, 'deadDropped', #ids)
  end
  return ids, young
end
