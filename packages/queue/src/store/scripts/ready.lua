-- ready.lua - makes jobs ready.
-- It wakes the workers that wait for work.
--
-- Needs idOf
-- Defines makeReady, wakeWorker, wakeTimers, inBatches, band

-- `unpack` fails at 8,000 values. This number is well below that, and even, since arguments may be pairs.
local maxBatch = 500
-- Each priority has a range of 2^33 scores. The first job of an empty priority gets the middle one.
local band, middle = 8589934592, 4294967296

local function inBatches(operands, send)
  for start = 1, #operands, maxBatch do
    send(unpack(operands, start, math.min(start + maxBatch - 1, #operands)))
  end
end

-- The position next to the first (or last) job of this priority.
local function edgeOf(prioritised, priority, atFront)
  local low = string.format('%.0f', priority * band)
  local high = string.format('(%.0f', (priority + 1) * band)
  local found
  if atFront then found = redis.call('ZRANGEBYSCORE', prioritised, low, high, 'WITHSCORES', 'LIMIT', 0, 1)
  else found = redis.call('ZREVRANGEBYSCORE', prioritised, high, low, 'WITHSCORES', 'LIMIT', 0, 1) end
  if not found[2] then return priority * band + middle end
  return tonumber(found[2]) + (atFront and -1 or 1)
end

-- Adds jobs in the order of `entries`, after or ahead of all other jobs of their priority.
local function makeReady(waiting, prioritised, entries, atFront)
  local plain, ranked, edges = {}, {}, {}
  local first, last, step = 1, #entries, 1
  if atFront then first, last, step = #entries, 1, -1 end
  for i = first, last, step do
    local id, priority = idOf(entries[i])
    if priority == 0 then
      plain[#plain + 1] = id
    else
      local score = edges[priority] or edgeOf(prioritised, priority, atFront)
      edges[priority] = score + step
      ranked[#ranked + 1] = string.format('%.0f', score)
      ranked[#ranked + 1] = id
    end
  end
  inBatches(ranked, function(...) redis.call('ZADD', prioritised, ...) end)
  inBatches(plain, function(...)
    if atFront then redis.call('LPUSH', waiting, ...) else redis.call('RPUSH', waiting, ...) end
  end)
end

local function wakeWorker(wake)
  redis.call('ZADD', wake, 0, 'job')
end

local function wakeTimers(wake)
  redis.call('ZADD', wake, 1, 'timer', 2, 'backup')
end
