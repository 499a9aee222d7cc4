-- bullJobs.lua - reads jobs of a BullMQ queue, or its job schedulers. Changes nothing.
--
-- KEYS[1]  repeats  zset    id of a job scheduler to the instant of its next job, ms
-- KEYS[n]  parts    any     five for each job: its hash, and `dependencies`, `processed`, `failed`, `unsuccessful` if it is a parent
-- ARGV[1]  isWhole  string  1: with the data
--
-- Reply     {{name, opts, data, timestamp, priority, attempts, parent, scheduler, deduplication, failure, bytes, isParent, at}, …}
--           for each job; empty texts for fields that it does not have, and for the data unless it is wanted; bytes of the data; 1 if it
--           has or had children; the next instant of its scheduler, or empty. An empty list: there is no such job
local repeats = KEYS[1]
local parts = { unpack(KEYS, 2) }
local isWhole = ARGV[1]

local reply = {}
for i = 1, #parts, 5 do
  local job = redis.call('HMGET', parts[i], 'name', 'opts', isWhole == '1' and 'data' or '', 'timestamp', 'priority', 'atm',
    'parentKey', 'rjk', 'deid', 'defa')
  local facts = {}
  if job[1] then
    for field = 1, 10 do facts[field] = job[field] or '' end
    facts[11] = tostring(redis.call('HSTRLEN', parts[i], 'data'))
    facts[12] = redis.call('EXISTS', parts[i + 1], parts[i + 2], parts[i + 3], parts[i + 4]) > 0 and '1' or ''
    facts[13] = job[8] and redis.call('ZSCORE', repeats, job[8]) or ''
  end
  reply[#reply + 1] = facts
end
return reply
