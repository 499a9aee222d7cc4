-- whoRuns.lua - reads which workers have some active jobs, and when these started. Changes nothing.
-- Records can have any size and content.
--
-- KEYS[1]  workers  hash    id of a worker to the instant of its record, ms, then the record, see `record.ts`
-- ARGV[n]  members  string  of `leases`, at most 100
--
-- Reply     {facts, begunAt, …}  two for each: a line of its worker's record, when the job started as text in epoch ms; empty if unknown
local workers = KEYS[1]
local members = ARGV

local records, reply = {}, {}
for i, member in ipairs(members) do
  local worker = string.sub(member, 1, 7)
  local record = records[worker]
  if not record then
    record = redis.call('HSTRLEN', workers, worker) <= 65536 and redis.call('HGET', workers, worker) or ''
    records[worker] = record
  end
  local _, last = string.find(record, '\n' .. string.sub(member, 8) .. '\t', 1, true)
  reply[2 * i - 1] = string.match(record, '^%d+\n([^\n]*)') or ''
  reply[2 * i] = last and string.match(record, '^%d+', last + 1) or ''
end
return reply
