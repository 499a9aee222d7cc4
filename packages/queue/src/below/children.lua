-- children.lua - reads children of a job, in the order in which they were added. Changes nothing.
--
-- KEYS[1]  jobs      hash     id to header and payload
-- KEYS[2]  families  hash     the open and ended children of each parent, see `flow.lua`
-- ARGV[1]  id        string   of the parent
-- ARGV[2]  start     integer  how many children to skip
-- ARGV[3]  count     integer  how many to read, at most 100; fewer if they have more than 1 MiB
--
-- Reply     {open, next, child, …}  how many children are open, as text; how many to skip for the next page, or -1 at the end; each child
--           as id, tab, name, tab, outcome: as `outcomes.ts` has it, `open`, or `lost`: it is no longer stored, and did not count
local jobs = KEYS[1]
local families = KEYS[2]
local id = ARGV[1]
local start = tonumber(ARGV[2])
local count = tonumber(ARGV[3])

-- Libraries

local function recordAt(number)
  return redis.call('HGET', families, id .. '\t' .. string.format('%d', number))
end
local reply, bytes, n = { redis.call('HGET', families, id) or '0', '-1' }, 0, start
while n < start + count and bytes <= 1048576 do
  local record = recordAt(n)
  if not record then return reply end
  if not string.find(record, '\t', 1, true) then
    local blob = redis.call('HGET', jobs, record)
    record = record .. '\t' .. (nameOf(blob) or '') .. '\t' .. (blob and 'open' or 'lost')
  end
  reply[#reply + 1] = record
  bytes = bytes + #record
  n = n + 1
end
if recordAt(n) then reply[2] = string.format('%d', n) end
return reply
