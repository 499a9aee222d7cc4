-- workerIds.lua - reads the ids of up to 1,000 workers, in no order. Changes nothing.
--
-- KEYS[1]  workers  hash  id of a worker to the instant of its record, ms, then the record
--
-- Reply     {id, …}
local workers = KEYS[1]

return redis.call('HRANDFIELD', workers, 1000)
