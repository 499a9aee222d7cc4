-- claim.lua - a worker takes a file of a job, if no other worker has it.
--
-- KEYS[1]   job           hash   the record of the job
-- KEYS[2]   progress      hash   `<file>:<fact>` of each file
-- KEYS[3]   claims        zset   file to the ms at which its worker's lease ends
-- ARGV[1]  file      string   device and inode
-- ARGV[2]  seen      string   the length and hash of its first text bytes, as recorded when this worker looked; empty: no record
-- ARGV[3]  prefix    string   what they are now: of a file that was shorter, more of them
-- ARGV[4]  isSame    integer  0: it does not begin as `seen` says, so it is another file
-- ARGV[5]  name      string   its path within the directory
-- ARGV[6]  stamp     string   its size and time of change
-- ARGV[7]  leaseMs   integer  life of the claim, milliseconds
-- ARGV[8]  op        string   id of this claim: sent again it gives the same
--
-- Reply     {1, fence, seq, position}  it is this worker's
--           {0, msLeft}  another worker has it for so long; 0: it is done with this stamp, or its record has changed since this worker looked
--           error KIT_LAYOUT  written by a newer version
local job = KEYS[1]
local progress = KEYS[2]
local claims = KEYS[3]
local file = ARGV[1]
local seen = ARGV[2]
local prefix = ARGV[3]
local isSame = ARGV[4] == '1'
local name = ARGV[5]
local stamp = ARGV[6]
local leaseMs = tonumber(ARGV[7])
local op = ARGV[8]

-- Libraries

local layout = redis.call('HGET', job, 'layout')
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT it was written by a newer version') end
local record = redis.call('HMGET', progress, file .. ':prefix', file .. ':state', file .. ':stamp', file .. ':seq',
  file .. ':position', file .. ':op', file .. ':fence')
if record[6] == op then return { 1, record[7], record[4], record[5] } end
if (record[1] or '') ~= seen then return { 0, 0 } end
local now = readClock()
local ending = redis.call('ZSCORE', claims, file)
if ending and tonumber(ending) > now then return { 0, ending - now } end
if isSame and record[2] == 'done' and record[3] == stamp then return { 0, 0 } end
if not isSame then
  record[4], record[5] = '0', '0:0:0:0'
  redis.call('HSET', progress, file .. ':seq', 0, file .. ':lines', 0, file .. ':position', record[5])
end
redis.call('HSET', job, 'layout', 1)
local fence = nextFence(job)
redis.call('HSET', progress, file .. ':fence', fence, file .. ':op', op, file .. ':prefix', prefix, file .. ':name', name, file .. ':stamp', stamp, file .. ':state', 'open')
redis.call('ZADD', claims, now + leaseMs, file)
return { 1, fence, record[4], record[5] }
