-- redrive.lua - moves dead letters.
-- To the end of the queue, as if they were new; or drops them.
--
-- KEYS[1]  jobs         hash    id to header and payload
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  wake         zset    markers that wake workers
-- KEYS[5]  failures     hash    id to attempts, crashes, last error
-- KEYS[6]  dead         zset    id to the instant of its death
-- KEYS[7]  meta         hash    counters
-- ARGV[1]  verb         string  `redrive` or `drop`
-- ARGV[2]  ids          string  one a line, at most 100
--
-- Reply     n  how many were dead letters and are none any more
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local wake = KEYS[4]
local failures = KEYS[5]
local dead = KEYS[6]
local meta = KEYS[7]
local verb = ARGV[1]
local ids = ARGV[2]

-- Libraries

redis.call('HLEN', jobs)
redis.call('LLEN', waiting)
redis.call('ZCARD', prioritised)
redis.call('ZCARD', wake)
redis.call('HLEN', failures)
redis.call('HLEN', meta)
-- Removes nothing. At maxmemory Redis allows writes in a script after one that can only free memory.
redis.call('ZREM', dead, '')
local letters, moved, dropped, bytes = {}, {}, {}, 0
for id in string.gmatch(ids, '[^\n]+') do
  if not letters[id] and redis.call('ZSCORE', dead, id) then
    letters[id] = true
    letters[#letters + 1] = id
    bytes = bytes + sizeOf(jobs, failures, id)
    local blob = verb == 'redrive' and redis.call('HGET', jobs, id)
    if blob then moved[#moved + 1] = entryOfBlob(id, blob)
    else dropped[#dropped + 1] = id end
  end
end
if #letters == 0 then return 0 end
redis.call('HINCRBY', meta, 'deadBytes', -bytes)
if #moved > 0 then
  makeReady(waiting, prioritised, moved, false)
  wakeWorker(wake)
end
redis.call('ZREM', dead, unpack(letters))
redis.call('HDEL', failures, unpack(letters))
if #dropped > 0 then redis.call('HDEL', jobs, unpack(dropped)) end
return #letters
