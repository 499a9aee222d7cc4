-- present.lua - shows that a worker lives, or that it has left.
-- A worker calls this when it starts, reconnects and closes, and while none of its other calls shows that it lives.
--
-- KEYS[1]  workers  hash    id of a worker to the instant of its record, ms, then the record, see `record.ts`
-- ARGV[1]  worker   string  its id
-- ARGV[2]  record   string  empty: it has left
-- ARGV[3]  sweeps   string  `1`: also removes a few records of workers that died; otherwise empty
--
-- Reply     1
local workers = KEYS[1]
local worker = ARGV[1]
local record = ARGV[2]
local sweeps = ARGV[3]

if record == '' then
  redis.call('HDEL', workers, worker)
  return 1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- Each worker that starts checks ten records, so few records are of dead workers.
local gone = {}
local found = sweeps ~= '' and redis.call('HRANDFIELD', workers, 10, 'WITHVALUES') or {}
for i = 1, #found, 2 do
  local at = tonumber(string.match(found[i + 1], '^%d+') or 0)
  if at < now - 900000 then gone[#gone + 1] = found[i] end
end
-- Removes nothing. At maxmemory Redis allows writes in a script after one that can only free memory.
redis.call('HDEL', workers, '')
redis.call('HSET', workers, worker, string.format('%.0f\n', now) .. record)
redis.call('PEXPIRE', workers, 900000)
if #gone > 0 then redis.call('HDEL', workers, unpack(gone)) end
return 1
