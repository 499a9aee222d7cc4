-- popIf.lua - removes the member at one end of a sorted set if its score is within a bound; otherwise changes nothing.
--
-- KEYS[1]  members  zset    of the caller
-- ARGV[1]  from     string  `low`: if the lowest score is at most the bound; `high`: if the highest is at least the bound
-- ARGV[2]  bound    string  a score; empty: the server's time in epoch ms
--
-- Reply     {member, score}  the score as text; nil: nothing was removed
local members = KEYS[1]
local from = ARGV[1]
local bound = ARGV[2]

local index = from == 'low' and 0 or -1
local found = redis.call('ZRANGE', members, index, index, 'WITHSCORES')
if not found[1] then return false end
local score, limit = tonumber(found[2]), tonumber(bound)
if not limit then
  local time = redis.call('TIME')
  limit = time[1] * 1000 + math.floor(time[2] / 1000)
end
if from == 'low' and score > limit or from == 'high' and score < limit then return false end
redis.call('ZREM', members, found[1])
return found
