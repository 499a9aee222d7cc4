-- forget.lua - deletes a job with its results, if no worker has a file.
--
-- KEYS[1]   job           hash   the record of the job
-- KEYS[2]   progress      hash   `<file>:<fact>` of each file, `<content>:<fact>` of each content
-- KEYS[3]   claims        zset   content to the ms at which its worker's lease ends
-- KEYS[n]   targets       any    where results go
-- ARGV[1]  fence  string  the last one that the job gave: a late repeat must not delete a later job
--
-- Reply     1  deleted, now or before
--           0  a worker has a file
--           2  there are other results than these, or a file was claimed since
--           error KIT_LAYOUT  written by a newer version
local job = KEYS[1]
local progress = KEYS[2]
local claims = KEYS[3]
local targets = KEYS
local fence = ARGV[1]

-- Libraries

local layout = redis.call('HGET', job, 'layout')
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT it was written by a newer version') end
if (redis.call('HGET', job, 'fence') or '') ~= fence then return 2 end
if #redis.call('ZRANGEBYSCORE', claims, '(' .. string.format('%.0f', readClock()), '+inf', 'LIMIT', 0, 1) > 0 then return 0 end
local facts, count = redis.call('HGETALL', job), 0
for i = 1, #facts, 2 do
  if string.find(facts[i], '^result ') then count = count + 1 end
end
if count ~= #targets - 3 then return 2 end
redis.call('UNLINK', job, progress, claims)
for i = 4, #targets do redis.call('UNLINK', targets[i]) end
return 1
