-- list.lua - reads a page of the jobs in one state, without their payloads. Changes nothing.
--
-- KEYS[1]  jobs      hash     id to header and payload
-- KEYS[2]  failures  hash     id to attempts, crashes, last error
-- KEYS[3]  listed    string   the jobs of the state: a list of ids, or a zset of ids, entries, or members of `leases`
-- ARGV[1]  kind      string   `list`, `ids`, `entries` or `leases`
-- ARGV[2]  start     integer  how many to skip
-- ARGV[3]  count     integer  how many to read, at most 100
--
-- Reply     {id, at, header, bytes, record, …}  five for each: score of a zset or empty, header line, size of the payload
local jobs = KEYS[1]
local failures = KEYS[2]
local listed = KEYS[3]
local kind = ARGV[1]
local start = tonumber(ARGV[2])
local count = tonumber(ARGV[3])

-- Libraries

local reply = {}
local function show(entry, at)
  if kind == 'leases' then entry = leasedEntry(entry) end
  local id = idOf(entry)
  local blob = redis.call('HGET', jobs, id) or ''
  local header = string.match(blob, '^[^\n]*')
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = id, at, header
  reply[n + 4] = string.format('%d', math.max(0, #blob - #header - 1))
  reply[n + 5] = redis.call('HGET', failures, id) or ''
end
if kind == 'list' then
  for _, id in ipairs(redis.call('LRANGE', listed, start, start + count - 1)) do show(id, '') end
else
  local found = redis.call('ZRANGE', listed, start, start + count - 1, 'WITHSCORES')
  for i = 1, #found, 2 do show(found[i], found[i + 1]) end
end
return reply
