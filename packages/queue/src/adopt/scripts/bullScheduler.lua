-- bullScheduler.lua - reads a job scheduler of a BullMQ queue. Changes nothing.
--
-- KEYS[1]  scheduler  hash  its definition
--
-- Reply     {name, pattern, tz, every, limit, startDate, endDate, runs, data, opts}  empty texts for fields that it does not have
local scheduler = KEYS[1]

local found = redis.call('HMGET', scheduler, 'name', 'pattern', 'tz', 'every', 'limit', 'startDate', 'endDate', 'ic', 'data', 'opts')
for i = 1, 10 do found[i] = found[i] or '' end
return found
