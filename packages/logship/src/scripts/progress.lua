-- progress.lua - the commit of a worker: results and position together; or only a renewal of the claim.
--
-- KEYS[1]   job           hash   the record of the job
-- KEYS[2]   progress      hash   `<file>:<fact>` of each file, `<content>:<fact>` of each content
-- KEYS[3]   claims        zset   content to the ms at which its worker's lease ends
-- KEYS[n]   targets       any    where results go
-- ARGV[1]  content   string   that this worker has
-- ARGV[2]  fence     string   of this worker's claim
-- ARGV[3]  leaseMs   integer  life of the claim from now, milliseconds; 0: it is given back
-- ARGV[4]  events    string   Pub/Sub channel for hints
-- ARGV[5]  seq       integer  number of this commit; 0: nothing to commit
-- ARGV[6]  position  string   the new one
-- ARGV[7]  prefix    string   length and hash of the start of the text that is counted, and its end; empty: as before
-- ARGV[8]  lines     integer  lines processed by this commit
-- ARGV[9]  doneStamp string   stamp of the file, all of which is processed; empty: it goes on
-- ARGV[10] results   string   JSON: kind, number of its key, field, value of each
--
-- Reply     {1}  committed, now or before; or the claim lives
--           {0, fence}  another worker has the content
--           {3}     the record is not at the commit before this one
--           {5, fault}  a result cannot be applied; nothing was changed
local job = KEYS[1]
local progress = KEYS[2]
local claims = KEYS[3]
local targets = KEYS
local content = ARGV[1]
local fence = ARGV[2]
local leaseMs = tonumber(ARGV[3])
local events = ARGV[4]
local seq = tonumber(ARGV[5])
local position = ARGV[6]
local prefix = ARGV[7]
local lines = ARGV[8]
local doneStamp = ARGV[9]
local results = cjson.decode(ARGV[10])

-- Libraries

local record = redis.call('HMGET', progress, content .. ':fence', content .. ':seq', content .. ':file')
if record[1] ~= fence then return { 0, record[1] or '0' } end
local current = tonumber(record[2])
failOnOtherType(claims)
if seq > 0 and current ~= seq and current ~= seq - 1 then return { 3 } end
local isNew = seq > 0 and current == seq - 1
local made = {}
if isNew then
  failOnOtherType(job)
  local fault
  fault, made = checkResults(targets, 4, results)
  if fault then return { 5, fault } end
end
allowWrites(claims)
if isNew then
  applyResults(job, made, targets, 4, results)
  redis.call('HSET', progress, content .. ':seq', seq, content .. ':position', position)
  redis.call('HINCRBY', progress, content .. ':lines', lines)
  if prefix ~= '' then
    local file = record[3] or content
    local before = redis.call('HGET', progress, file .. ':prefix') or ''
    redis.call('HSET', progress, file .. ':prefix', prefix)
    if startOf(before) ~= startOf(prefix) then
      unlistContent(progress, startOf(before), content)
      listContent(progress, startOf(prefix), content)
    end
  end
  if doneStamp ~= '' then redis.call('HSET', progress, content .. ':state', 'done', (record[3] or content) .. ':stamp', doneStamp) end
end
if doneStamp ~= '' or leaseMs == 0 then
  if redis.call('ZREM', claims, content) == 1 then redis.call('PUBLISH', events, 'file') end
else
  -- Never adds one: a sign of life may arrive after the commit that ended the work.
  redis.call('ZADD', claims, 'XX', readClock() + leaseMs, content)
end
return { 1 }
