-- dead.lua - keeps dead letters.
-- Within bounds of count, age and bytes.
--
-- Defines makeDead, dropDead, trimDead

local function sizeOf(jobs, failures, id)
  return redis.call('HSTRLEN', jobs, id) + redis.call('HSTRLEN', failures, id)
end

-- Called after the job's failure was written.
local function makeDead(jobs, failures, dead, meta, id, now)
  redis.call('ZADD', dead, string.format('%.0f', now), id)
  redis.call('HINCRBY', meta, 'deadBytes', sizeOf(jobs, failures, id))
  redis.call('HINCRBY', meta, 'died', 1)
end

-- Removes a dead letter; returns whether it was one.
local function dropDead(jobs, failures, dead, meta, id)
  if redis.call('ZREM', dead, id) == 0 then return false end
  redis.call('HINCRBY', meta, 'deadBytes', -sizeOf(jobs, failures, id))
  return true
end

-- `bounds` is `maxCount maxAgeMs maxBytes`. At most 100 dead letters a call, oldest first.
local function trimDead(jobs, failures, dead, meta, bounds, now)
  local maxCount, maxAgeMs, maxBytes = string.match(bounds, '(%d+) (%d+) (%d+)$')
  for _ = 1, 100 do
    local oldest = redis.call('ZRANGE', dead, 0, 0, 'WITHSCORES')
    if not oldest[1] then return end
    local isOver = redis.call('ZCARD', dead) > tonumber(maxCount)
      or tonumber(redis.call('HGET', meta, 'deadBytes') or 0) > tonumber(maxBytes)
    if not isOver and tonumber(oldest[2]) > now - maxAgeMs then return end
    dropDead(jobs, failures, dead, meta, oldest[1])
    redis.call('HDEL', jobs, oldest[1])
    redis.call('HDEL', failures, oldest[1])
    redis.call('HINCRBY', meta, 'deadDropped', 1)
  end
end
