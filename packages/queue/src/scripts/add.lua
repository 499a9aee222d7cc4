-- add.lua - stores jobs.
-- They become ready or delayed, once however often the call arrives.
--
-- KEYS[1]  jobs         hash     id to header and payload
-- KEYS[2]  waiting      list     ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset     ids of the other ready jobs
-- KEYS[4]  delayed      zset     entry to the instant at which it is due, ms
-- KEYS[5]  wake         zset     markers that wake workers
-- KEYS[6]  producers    zset     producer to the sequence number of its last call
-- ARGV[1]  producer     string   9 characters; the ids of its jobs are these, a dot and a count in base 36
-- ARGV[2]  sequence     integer  number of this call; calls of one producer come in order
-- ARGV[3]  isNew        integer  1: this producer has not called for an hour; empty producers are cleared out
-- ARGV[4]  plan         string   one line a job: its id, and for those that do not simply go to the end of `waiting` a tab
--                                and words: `l` to the front, `p-1` priority, `d500` ms to wait, `@1700000000000` due
--                                instant, `u` only if there is no job of this id, `oNAME:5` only if call 5 of producer
--                                NAME did not arrive, which then never will
-- ARGV[n]  blobs        string   header and payload of each
--
-- Reply     now                  server time, epoch ms; all are stored, now or by an earlier copy of the call
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local wake = KEYS[5]
local producers = KEYS[6]
local producer = ARGV[1]
local sequence = ARGV[2]
local isNew = ARGV[3]
local plan = ARGV[4]
local blobs = { unpack(ARGV, 5) }

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local isPlain = not string.find(plan, '\t', 1, true)
redis.call('HLEN', jobs)
redis.call('LLEN', waiting)
redis.call('ZCARD', wake)
if not isPlain then
  redis.call('ZCARD', prioritised)
  redis.call('ZCARD', delayed)
end

if redis.call('ZADD', producers, 'GT', 'CH', sequence, producer) == 0 then return now end
if isNew == '1' then
  redis.call('PEXPIRE', producers, 86400000)
  redis.call('ZREMRANGEBYRANK', producers, 0, -10001)
end

-- Most calls need none of the libraries, and defining their functions takes longer than a command.
if isPlain then
  local ids, fields = {}, {}
  for id in string.gmatch(plan, '[^\n]+') do
    local n = #ids + 1
    ids[n] = id
    fields[2 * n - 1] = id
    fields[2 * n] = blobs[n]
  end
  for start = 1, #ids, 500 do
    local last = math.min(start + 499, #ids)
    redis.call('HSET', jobs, unpack(fields, 2 * start - 1, 2 * last))
    redis.call('RPUSH', waiting, unpack(ids, start, last))
  end
  redis.call('ZADD', wake, 0, 'job')
  return now
end

-- Libraries

local ids, words = {}, {}
for id, rest in string.gmatch(plan, '([^\n\t]+)([^\n]*)') do
  ids[#ids + 1] = id
  words[#ids] = rest
end
local first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
local earliest = tonumber(first[2] or nil) or math.huge
local isEarlier, ready, fields, isAdded = false, {}, {}, {}
for i, id in ipairs(ids) do
  local word = {}
  for letter, value in string.gmatch(words[i], '\t(.)([^\t]*)') do word[letter] = value end
  local isStored = word.u and (isAdded[id] or redis.call('HEXISTS', jobs, id) == 1)
  if word.o then
    local former, number = string.match(word.o, '(%w+):(%d+)')
    -- A sequence number in `producers` means that the call arrived; a half above it, that it must not arrive any more. A repeat
    -- is recorded per job.
    local repeated = former .. ':' .. number .. ':' .. id
    isStored = isStored
      or tonumber(redis.call('ZSCORE', producers, former) or 0) == tonumber(number)
      or redis.call('ZSCORE', producers, repeated)
    if not isStored then redis.call('ZADD', producers, 'GT', number .. '.5', former, number, repeated) end
  end
  if not isStored then
    isAdded[id] = true
    fields[#fields + 1] = id
    fields[#fields + 1] = blobs[i]
    local entry = entryOf(id, tonumber(word.p or 0))
    local due = word.d and now + word.d or tonumber(word['@'] or now)
    if due > now then
      redis.call('ZADD', delayed, string.format('%.0f', due), entry)
      isEarlier = isEarlier or due < earliest
    elseif word.l then
      redis.call('LPUSH', waiting, id)
      wakeWorker(wake)
    else
      ready[#ready + 1] = entry
    end
  end
end
inBatches(fields, function(...) redis.call('HSET', jobs, ...) end)
if #ready > 0 then
  makeReady(waiting, prioritised, ready, false)
  wakeWorker(wake)
end
if isEarlier then wakeTimers(wake) end
return now
