-- keep.lua - makes a shard permanent, or lets it expire, by what was decided last.
--
-- KEYS[1]  shard  hash     pages or blocks; `epoch`: the switch by which its life was last decided
-- ARGV[1]  epoch  integer  the switch by which it is decided now
-- ARGV[2]  ms     integer  its time to live, milliseconds; 0: for ever
--
-- Reply     1  done, or decided by a later switch: a late command changes nothing
--           0  there is no such shard
local shard = KEYS[1]
local epoch = tonumber(ARGV[1])
local ms = tonumber(ARGV[2])

if redis.call('EXISTS', shard) == 0 then return 0 end
if epoch < tonumber(redis.call('HGET', shard, 'epoch') or 0) then return 1 end
redis.call('HSET', shard, 'epoch', epoch)
if ms == 0 then
  redis.call('PERSIST', shard)
else
  redis.call('PEXPIRE', shard, ms)
end
return 1
