-- bullScheduler.lua - reads a job scheduler of a BullMQ queue, and its next job. Changes nothing.
--
-- KEYS[1]  scheduler  hash  its definition; a repeatable job before BullMQ 5.10 has none
-- KEYS[n]  nexts      hash  its next job is one of them, or none
--
-- Reply     {place, name, data, opts, field, value, …}  the place of its next job among `nexts`, from 1, and three fields of it; 0 and
--           empty texts if there is none. Then the fields of the definition
local scheduler = KEYS[1]
local nexts = { unpack(KEYS, 2) }

local reply = { 0, '', '', '' }
for place, key in ipairs(nexts) do
  local job = redis.call('HMGET', key, 'name', 'data', 'opts')
  if job[1] then reply = { place, unpack(job) } end
end
for _, part in ipairs(redis.call('HGETALL', scheduler)) do reply[#reply + 1] = part end
return reply
