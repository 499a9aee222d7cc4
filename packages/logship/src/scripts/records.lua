-- records.lua - the records that a job has of some files. Changes nothing.
--
-- KEYS[1]   progress      hash   `<file>:<fact>` of each file
-- KEYS[2]   claims        zset   file to the ms at which its worker's lease ends
-- ARGV[n]  files     string  device and inode of each
--
-- Reply     of each file: its prefix, state, stamp, and for how many ms another worker has it
local progress = KEYS[1]
local claims = KEYS[2]
local files = ARGV

-- Libraries

local now = readClock()
local reply = {}
for _, file in ipairs(files) do
  local facts = redis.call('HMGET', progress, file .. ':prefix', file .. ':state', file .. ':stamp')
  local ending = redis.call('ZSCORE', claims, file)
  reply[#reply + 1] = facts[1] or ''
  reply[#reply + 1] = facts[2] or ''
  reply[#reply + 1] = facts[3] or ''
  reply[#reply + 1] = math.max(0, (ending and tonumber(ending) or 0) - now)
end
return reply
