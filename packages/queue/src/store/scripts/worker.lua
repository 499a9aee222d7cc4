-- worker.lua - shows that a worker lives.
-- Nothing depends on this, so errors are ignored. The heartbeat thread does not have the record, and keeps the stored one.
--
-- Defines showWorker
local function showWorker(workers, worker, now, record)
  if record == '=' then
    local last = redis.pcall('HGET', workers, worker)
    record = type(last) == 'string' and string.match(last, '\n(.*)')
    if not record then return end
  end
  redis.pcall('HSET', workers, worker, string.format('%.0f\n', now) .. record)
  redis.pcall('PEXPIRE', workers, 900000)
end
