-- outcomes.lua - reads outcomes.
-- It deletes outcomes that have arrived.
--
-- KEYS[1]  jobs      hash    id to header and payload
-- KEYS[2]  failures  hash    id to attempts, crashes, last error
-- KEYS[3]  dead      zset    id to the instant of its death
-- KEYS[4]  replies   hash    id to what became of the job
-- ARGV[1]  received  string  ids of jobs whose outcomes have arrived, one per line, at most 100
-- ARGV[2]  wanted    string  ids of jobs, one per line, at most 100
--
-- Reply     {outcome, …}  for each wanted id: the outcome that `step` stored; `dead`, LF and its record if it is a dead letter; `waiting`: it has
--           not ended; `gone`; `later`: the outcomes before it have more than a MiB
local jobs = KEYS[1]
local failures = KEYS[2]
local dead = KEYS[3]
local replies = KEYS[4]
local received = ARGV[1]
local wanted = ARGV[2]

failOnOtherType(jobs, failures, dead, replies)
local outcomes, bytes = {}, 0
for id in string.gmatch(wanted, '[^\n]+') do
  local outcome = bytes > 1048576 and 'later' or redis.call('HGET', replies, id)
  if not outcome then
    if redis.call('ZSCORE', dead, id) then outcome = 'dead\n' .. (redis.call('HGET', failures, id) or '')
    elseif redis.call('HEXISTS', jobs, id) == 1 then outcome = 'waiting'
    else outcome = 'gone' end
  end
  bytes = bytes + #outcome
  outcomes[#outcomes + 1] = outcome
end
local ids = {}
for id in string.gmatch(received, '[^\n]+') do ids[#ids + 1] = id end
-- This comes last: it may empty the key, and while the slot moves to another node, a script fails at a key that is gone.
if #ids > 0 then redis.call('HDEL', replies, unpack(ids)) end
return outcomes
