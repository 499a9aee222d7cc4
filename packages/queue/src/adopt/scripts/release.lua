-- release.lua - ends a slice: returns some items to the BullMQ queue, and deletes the data of the others.
-- A repeated call finds no slice, and changes nothing.
--
-- KEYS[1]  state        hash     what the adoption holds; see hold.lua
-- KEYS[2]  wait         list     ids of ready jobs, the next one last
-- KEYS[3]  paused       list     the same, of a queue that an older version paused
-- KEYS[4]  prioritized  zset     ids of ready jobs with a priority
-- KEYS[5]  delayed      zset     ids of delayed jobs
-- KEYS[6]  repeats      zset     id of a job scheduler to the instant of its next job, ms
-- KEYS[n]  gone         any      deduplication keys, one for each of `holders`; then keys that are deleted
-- ARGV[1]  token        string   of the adoption
-- ARGV[2]  number       integer  of the slice
-- ARGV[3]  back         string   the places in the slice of the items to return, separated by blanks
-- ARGV[n]  holders      string   the ids of the jobs whose deduplication keys are deleted, if they still have them
--
-- Reply     1  ended
--           0  the slice was not held
local state = KEYS[1]
local wait = KEYS[2]
local paused = KEYS[3]
local prioritized = KEYS[4]
local delayed = KEYS[5]
local repeats = KEYS[6]
local gone = { unpack(KEYS, 7) }
local token = ARGV[1]
local number = ARGV[2]
local back = ARGV[3]
local holders = { unpack(ARGV, 4) }

local known = redis.call('HMGET', state, 'token', 'number', 'count')
local count = tonumber(known[3] or 0)
if known[1] ~= token or known[2] ~= number or count == 0 then return 0 end

local places = {}
for place in string.gmatch(back, '%d+') do table.insert(places, 1, place) end
for _, place in ipairs(places) do
  local kind, score, id = string.match(redis.call('HGET', state, place), '^(%S+) (%S+) (.*)$')
  if kind == 'wait' then
    redis.call('RPUSH', wait, id)
  elseif kind == 'paused' then
    redis.call('RPUSH', paused, id)
  elseif kind == 'prioritized' then
    redis.call('ZADD', prioritized, score, id)
  elseif kind == 'delayed' then
    redis.call('ZADD', delayed, score, id)
  else
    redis.call('ZADD', repeats, score, id)
  end
end
for i, key in ipairs(gone) do
  if i > #holders or redis.call('GET', key) == holders[i] then redis.call('DEL', key) end
end
local fields = {}
for i = 1, count do fields[i] = i end
redis.call('HDEL', state, 'count', unpack(fields))
redis.call('PEXPIRE', state, 86400000)
return 1
