-- add.lua - stores jobs.
-- They become ready or delayed. A call that arrives again changes nothing.
--
-- KEYS[1]  jobs         hash     id to header and payload
-- KEYS[2]  waiting      list     ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset     ids of the other ready jobs
-- KEYS[4]  delayed      zset     entry to the instant at which it is due, ms
-- KEYS[5]  wake         zset     markers that wake workers
-- KEYS[6]  producers    zset     producer to the sequence number of its last call
-- KEYS[n]  once         any      only if a job has the word `?`: `leases` and `dead`, then the stored answers of this producer,
--                                and of the producer in the word `o` of each such job
-- ARGV[1]  producer     string   9 characters; the ids of its jobs are these, a dot and a count in base 36
-- ARGV[2]  sequence     integer  number of this call; calls of one producer come in order
-- ARGV[3]  isNew        integer  1: this producer has not called for an hour; the oldest producers are dropped
-- ARGV[4]  plan         string   one line per job: its id, then a tab before each word: `l` to the front, `p-1` priority, `d500` ms
--                                to wait, `@1700000000000` due instant, `u` only if there is no job of this id, `oNAME:5` only
--                                if call 5 of producer NAME did not arrive, which then is refused for ever, `?` reply with
--                                whether it was added. Without words the job goes to the end of `waiting`
-- ARGV[n]  blobs        string   header and payload of each
--
-- Reply     now                  server time, epoch ms; all jobs are stored, now or by an earlier arrival of this call
--           now, answers         the same as text, if a job has the word `?`; then a line for each such job in order, with its id, a
--                                tab, and `added` or where the job of this id was: `ready`, `active`, `delayed`, `dead`;
--                                `unsure` ready or active, if more than 1,000 are active; `lost` in no list of work, if no search
--                                of `waiting` is needed to find out; `gone` if an earlier call had the job and its answer is no
--                                longer stored
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local wake = KEYS[5]
local producers = KEYS[6]
local once = { unpack(KEYS, 7) }
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
local kept, leased = {}, 0
if once[1] then
  leased = redis.call('ZCARD', once[1])
  redis.call('ZCARD', once[2])
  for i = 3, #once do kept[i - 2] = redis.call('GET', once[i]) or '' end
end

if redis.call('ZADD', producers, 'GT', 'CH', sequence, producer) == 0 then
  return once[1] and now .. (string.match(kept[1], '^' .. sequence .. '(\n.*)') or '') or now
end
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
local isEarlier, ready, fields, added = false, {}, {}, {}

-- Read once for all jobs of the call.
local active
local function stateOf(id)
  if redis.call('ZSCORE', once[2], id) then return 'dead' end
  local entry = entryOfBlob(id, redis.call('HGET', jobs, id))
  if redis.call('ZSCORE', delayed, entry) then return 'delayed' end
  if redis.call('ZSCORE', prioritised, id) then return 'ready' end
  if not active then
    active = {}
    for _, member in ipairs(redis.call('ZRANGE', once[1], 0, 999)) do active[leasedEntry(member)] = true end
  end
  if active[entry] then return 'active' end
  if leased > 1000 then return entry == id and 'unsure' or 'active' end
  return entry == id and 'ready' or 'lost'
end

local answers = ''
for i, id in ipairs(ids) do
  local word = {}
  for letter, value in string.gmatch(words[i], '\t(.)([^\t]*)') do word[letter] = value end
  local wantsAnswer = word['?']
  local isStored, answer, repeated, number = false, 'added', nil, nil
  if word.o then
    -- A sequence number in `producers` means that the call arrived. A half above the number means that it is refused from now on.
    -- Repeats are recorded per job.
    repeated = word.o .. ':' .. id
    local former
    former, number = string.match(word.o, '(%w+):(%d+)')
    local before = wantsAnswer and table.remove(kept, 2)
    if tonumber(redis.call('ZSCORE', producers, former) or 0) == tonumber(number) then
      isStored = true
      if before then
        local all = string.match(before, '^' .. number .. '(\n.*)') or ''
        local _, last = string.find(all, '\n' .. id .. '\t', 1, true)
        answer = last and string.match(all, '%a+', last) or 'gone'
      end
    elseif redis.call('ZSCORE', producers, repeated) then
      isStored = true
    else
      redis.call('ZADD', producers, 'GT', number .. '.5', former)
    end
  end
  if not isStored and word.u and (added[id] or redis.call('HEXISTS', jobs, id) == 1) then
    isStored = true
    if wantsAnswer then answer = added[id] or stateOf(id) end
  end
  if wantsAnswer then answers = answers .. '\n' .. id .. '\t' .. answer end
  if not isStored then
    if repeated then redis.call('ZADD', producers, number, repeated) end
    fields[#fields + 1] = id
    fields[#fields + 1] = blobs[i]
    local entry = entryOf(id, tonumber(word.p or 0))
    local due = word.d and now + word.d or tonumber(word['@'] or now)
    added[id] = due > now and 'delayed' or 'ready'
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
if not once[1] then return now end
redis.call('SET', once[3], sequence .. answers, 'PX', 600000)
return now .. answers
