-- ready.lua - makes jobs ready.
-- It wakes the workers that wait for work.
--
-- Needs idOf
-- Defines makeReady, wakeWorker, wakeTimers, maxBatch

-- `unpack` fails at 8,000; this leaves room.
local maxBatch = 500
-- Scores of one priority: 2^33 places, the first job of an empty priority in the middle.
local band, middle = 8589934592, 4294967296

local function pushAll(command, key, ids)
  for start = 1, #ids, maxBatch do
    local last = math.min(start + maxBatch - 1, #ids)
    if command == 'RPUSH' then redis.call('RPUSH', key, unpack(ids, start, last))
    else redis.call('LPUSH', key, unpack(ids, start, last)) end
  end
end

-- The place next to the first (or last) job of this priority.
local function edgeOf(prioritised, priority, atFront)
  local low = string.format('%.0f', priority * band)
  local high = string.format('(%.0f', (priority + 1) * band)
  local found
  if atFront then found = redis.call('ZRANGEBYSCORE', prioritised, low, high, 'WITHSCORES', 'LIMIT', 0, 1)
  else found = redis.call('ZREVRANGEBYSCORE', prioritised, high, low, 'WITHSCORES', 'LIMIT', 0, 1) end
  if not found[2] then return priority * band + middle end
  return tonumber(found[2]) + (atFront and -1 or 1)
end

-- In the order of `entries`, behind all others or in front of them.
local function makeReady(waiting, prioritised, entries, atFront)
  local plain, edges = {}, {}
  local first, last, step = 1, #entries, 1
  if atFront then first, last, step = #entries, 1, -1 end
  for i = first, last, step do
    local id, priority = idOf(entries[i])
    if priority == 0 then
      plain[#plain + 1] = id
    else
      local score = edges[priority] or edgeOf(prioritised, priority, atFront)
      edges[priority] = score + step
      redis.call('ZADD', prioritised, string.format('%.0f', score), id)
    end
  end
  pushAll(atFront and 'LPUSH' or 'RPUSH', waiting, plain)
end

local function wakeWorker(wake)
  redis.call('ZADD', wake, 0, 'job')
end

local function wakeTimers(wake)
  redis.call('ZADD', wake, 1, 'timer', 2, 'backup')
end
