-- add.lua - stores jobs.
-- They become ready or delayed. A repeated call changes nothing.
--
-- KEYS[1]  jobs         hash     id to header and payload
-- KEYS[2]  waiting      list     ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset     ids of the other ready jobs
-- KEYS[4]  delayed      zset     entry to the instant at which it is due, ms
-- KEYS[5]  wake         zset     markers that wake workers
-- KEYS[6]  producers    zset     producer to the sequence number of its last call
-- KEYS[7]  limits       hash     what keeps jobs from starting; `listened`
-- KEYS[8]  events       stream   recorded events
-- KEYS[n]  others       any      only if a job has the word `group`: `grouped`, `turns`, `held` and `groups`; then only if one has the word
--                                `ifNew` or `answer`: `leases`, `dead`, `failures` and `suspended`; then
--                                `unique`, if a job has the word `key`; then, if one has the word `answer`, the stored answers of this
--                                producer, and of the producer in the word `settles` of each such job
-- ARGV[1]  producer     string   9 characters; an id of its jobs is these, a dot and a count in base 36
-- ARGV[2]  sequence     integer  number of this call; calls of one producer come in order
-- ARGV[3]  isNew        integer  1: this producer has not called for an hour; the oldest producers are dropped
-- ARGV[4]  plan         string   one line per job: its id, then a tab before each word of the job. Without words it goes to the end of
--                                `waiting`. `front`: to the front; `priority=-1`: its priority; `group=NAME`: its group; `delay=500`: ms to wait;
--                                `due=1700000000000`: instant; `ifNew`: only if no job has this id, or an expired one has;
--                                `settles=NAME:5`: only if call 5 of producer NAME did not arrive; that call is then refused for ever;
--                                `answer`: reply with whether it was added, `answer=quick`: without a search. `key=KEY`: only if no job
--                                has this key, always with `answer`; `ttl=5000`: how long the key stays taken, ms; `extend`: a refused add
--                                restarts that time; `replace`: a ready or delayed job gets the blob instead, and an active one a
--                                successor
-- ARGV[n]  blobs        string   header and payload of each
--
-- Reply     now, answers         server time, epoch ms, after a minus if the server has lost the data of the queue, and its layout;
--                                all jobs are stored, now or by an earlier arrival of this call. Then a line
--                                for each job with the word `answer`, in order, with its id, a tab, and `added` or where the job of this id
--                                was: `ready`, `active`, `delayed`, `dead`; `unsure` ready or active, if more than 1,000 are active;
--                                `lost` in no list of work, if no search of `waiting` or `suspended` is needed to find out; `gone` if
--                                an earlier call had the job and its answer is no longer stored. If a job has its key: the same of that
--                                job, `ended`, or `held` without a search; a tab and its id; a tab and `replaced` if it has the blob now. With
--                                `added` that id is of a job that had expired, and has the blob now
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local wake = KEYS[5]
local producers = KEYS[6]
local limits = KEYS[7]
local events = KEYS[8]
local others = { unpack(KEYS, 9) }
local producer = ARGV[1]
local sequence = ARGV[2]
local isNew = ARGV[3]
local plan = ARGV[4]
local blobs = { unpack(ARGV, 5) }

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local listened = redis.call('HGET', limits, 'listened')
local isPlain = not listened and not string.find(plan, '\t', 1, true)
local isEmpty = redis.call('HLEN', jobs) == 0
failOnOtherType(waiting)
local first
if isPlain then
  -- A repeat also wakes a worker. This is the first write, so it checks the type of the key.
  redis.call('ZADD', wake, 0, 'job')
else
  failOnOtherType(wake, prioritised)
  first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
end
local grouped, turns, places, groups
if string.find(plan, '\tgroup=', 1, true) then
  grouped, turns, places, groups = unpack(others, 1, 4)
  others = { unpack(others, 5) }
  redis.call('ZCARD', grouped)
  redis.call('ZCARD', turns)
  redis.call('ZCARD', places)
  redis.call('HLEN', groups)
end
local leases, dead, failures, suspended = unpack(others, 1, 4)
local stored, unique, leased = { unpack(others, 5) }, nil, 0
if leases then
  leased = redis.call('ZCARD', leases)
  redis.call('ZCARD', dead)
  redis.call('HLEN', failures)
  redis.call('ZCARD', suspended)
  if string.find(plan, '\tkey=', 1, true) then
    unique, stored = stored[1], { unpack(stored, 2) }
    redis.call('HLEN', unique)
  end
  for i = 1, #stored do redis.call('GET', stored[i]) end
end

-- This producer has called before, so the server has lost the queue's data.
local sign = isEmpty and isNew ~= '1' and redis.call('ZCARD', producers) == 0 and '-' or ''
if redis.call('ZADD', producers, 'GT', 'CH', sequence, producer) == 0 then
  return now .. (string.match(stored[1] and redis.call('GET', stored[1]) or '', '^' .. sequence .. '(\n.*)') or '')
end
if isNew == '1' or sign ~= '' then
  redis.call('PEXPIRE', producers, 86400000)
  redis.call('ZREMRANGEBYRANK', producers, 0, -10001)
end

-- Most calls need no library, and defining the functions of the libraries takes longer than a command.
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
  return sign .. now
end

-- Libraries

lines = listened and {}
if grouped then
  joinGroups(true, grouped, turns, places, groups)
  -- From now on all scripts respect groups.
  if redis.call('HEXISTS', groups, '') == 0 then redis.call('HSET', groups, '', '0 wait 0 0') end
end
local ids, words = {}, {}
for id, rest in string.gmatch(plan, '([^\n\t]+)([^\n]*)') do
  ids[#ids + 1] = id
  words[#ids] = rest
end
local earliest = tonumber(first[2] or nil) or math.huge
local isEarlier, ready, fields, added = false, {}, {}, {}

-- Read once for all jobs of the call.
local active
local function stateOf(id)
  if added[id] then return added[id] end
  if redis.call('ZSCORE', dead, id) then return 'dead' end
  local entry = entryOfBlob(id, redis.call('HGET', jobs, id))
  local due = redis.call('ZSCORE', delayed, entry)
  if due then return 'delayed', tonumber(due) end
  if redis.call('ZSCORE', prioritised, id) then return 'ready' end
  if not active then
    active = {}
    for _, member in ipairs(redis.call('ZRANGE', leases, 0, 999)) do active[leasedEntry(member)] = true end
  end
  if active[entry] then return 'active' end
  local isOpen = entry == id or groupOf(entry)
  if leased > 1000 then return isOpen and 'unsure' or 'active' end
  return (isOpen or redis.call('ZCARD', suspended) > 0) and 'ready' or 'lost'
end

local function delay(entry, due)
  redis.call('ZADD', delayed, string.format('%.0f', due), entry)
  isEarlier = isEarlier or due < earliest
end

local function takeKey(key, id, till, before)
  redis.call('HSET', unique, key, keyRecord(id, till, before))
end

-- A job that gets another name no longer waits for its former name. If many jobs wait for that name, the first 10,000 are searched in
-- about 10 ms. A job after these stays suspended until the former name goes on.
local unsuspended = {}
local function unsuspend(entry, name)
  local from, to = '[' .. name .. ' ', '(' .. name .. '!'
  for _ = 1, 10 do
    local page = redis.call('ZRANGE', suspended, from, to, 'BYLEX', 'LIMIT', 0, 1000)
    for _, member in ipairs(page) do
      if placedEntry(member) == entry then
        unsuspended[#unsuspended + 1] = member
        ready[#ready + 1] = entry
        return
      end
    end
    if not page[1000] then return end
    from = '(' .. page[1000]
  end
end

-- Gives a ready or delayed job this blob and, unless it waits for its next attempt, the due instant. The job keeps its priority and group.
local function replace(held, former, blob, due)
  local entry = entryOfBlob(held.id, former)
  local priority = string.match(entry, '^!(-?[1-9]%d*)[!@]')
  blob = withOption(withOption(blob, 'priority', priority), 'group', (groupOf(entry)))
  redis.call('HSET', jobs, held.id, blob)
  local score = tonumber(redis.call('ZSCORE', delayed, entry) or nil)
  if not score then
    local name = nameOf(former)
    if name and name ~= nameOf(blob) and not groupOf(entry) and redis.call('ZCARD', suspended) > 0 then unsuspend(entry, name) end
    return
  end
  if score >= behind then
    delay(entry, held.hasFormer and due + behind or due)
  elseif redis.call('HEXISTS', failures, held.id) == 0 then
    delay(entry, due)
  end
end

-- Whether an expired job that no worker has gets this blob. Its entry stays in its place, so no list of work is searched. A job with a
-- record, or that waits until another job ends, does not expire. A job of a flow stays until a worker ends it. Nil: the job is ready, so it
-- cannot wait for this due instant.
local function renew(id, blob, due)
  if added[id] then return false end
  local former = redis.call('HGET', jobs, id)
  local wait, from = string.match(optionOf(former, 'expires') or '', '^(%d+)@?(%d*)$')
  local start = wait and tonumber(string.match(former, '^%S+'), 36)
  if not start or optionOf(former, 'flow') or math.max(start, tonumber(from) or 0) + wait >= now then return false end
  local state, dueAt = stateOf(id)
  local isHeld = state ~= 'ready' and (dueAt or behind) >= behind
  if isHeld or redis.call('HEXISTS', failures, id) == 1 then return false end
  if state == 'ready' and due > now then return nil end
  replace({ id = id }, former, blob, due)
  added[id] = state
  tell('expired', id)
  tell('added', id, nameOf(blob), state)
  return true
end

-- `added` if a job may be added, or the state of the job that has its key; the id of either; `replaced` if the job with the key has the
-- blob now, `follows` if the added job is its successor.
local claims = 0
local function claim(word, id, blob, due)
  claims = claims + 1
  local key, till = word.key, word.ttl and now + word.ttl or 0
  local held = holderOf(unique, jobs, dead, key)
  if held.id and held.till <= now and not word.replace then
    local isRenewed = renew(held.id, blob, due)
    if isRenewed then
      takeKey(key, held.id, till, '')
      return 'added', held.id
    end
    if isRenewed == nil then held.id = nil end
  end
  if not held.id and (held.till <= now or redis.call('ZSCORE', dead, held.last)) then
    takeKey(key, id, till, '')
    return 'added', id
  end
  local state, dueAt = held.id and 'held' or 'ended', nil
  if held.id and (word.replace or word.answer == '') then state, dueAt = stateOf(held.id) end
  if word.extend then takeKey(key, held.last, till, held.before) end
  if word.replace and held.id then
    local former = redis.call('HGET', jobs, held.id)
    -- A job that waits for its children has started.
    if state == 'ready' or state == 'delayed' and (dueAt or 0) < parked then
      replace(held, former, blob, due)
      return state, held.id, 'replaced'
    end
    if state ~= 'lost' and optionOf(former, 'latestKey') then
      redis.call('HSET', jobs, held.id, withOption(former, 'successor', id))
      takeKey(key, id, 0, held.id)
      return 'added', id, 'follows'
    end
  end
  return state, held.id or held.last
end

local answers, answered = '', 1
for i, id in ipairs(ids) do
  local word = {}
  for name, value in string.gmatch(words[i], '\t(%a+)=?([^\t]*)') do word[name] = value end
  local wantsAnswer = word.answer
  local isStored, answer, before = false, 'added'
  if word.settles then
    -- A sequence number in `producers` means that the call arrived. The number plus a half means that the call is refused from now on.
    -- Repeats are recorded for each job, even if they added nothing: otherwise a later repeat would add it. Their answers join the call's.
    local former, number = string.match(word.settles, '(%w+):(%d+)')
    local repeated = word.settles .. ':' .. id
    if wantsAnswer then
      answered = answered + 1
      before = string.match(redis.call('GET', stored[answered]) or '', '^' .. number .. '\n.*') or number
    end
    if redis.call('ZSCORE', producers, former) == number or redis.call('ZSCORE', producers, repeated) then
      isStored = true
      if before then
        local _, last = string.find(before, '\n' .. id .. '\t', 1, true)
        answer = last and string.match(before, '[^\n]+', last + 1) or 'gone'
        before = nil
      end
    else
      redis.call('ZADD', producers, 'GT', number .. '.5', former)
      redis.call('ZADD', producers, number, repeated)
    end
  end
  local entry = entryOf(id, tonumber(word.priority or 0), word.group)
  -- A score of `behind` or more belongs to a successor.
  local due = math.min(word.delay and now + word.delay or tonumber(word.due or now), behind - 1)
  if not isStored and word.ifNew and (added[id] or redis.call('HEXISTS', jobs, id) == 1) then
    isStored = true
    if not renew(id, blobs[i], due) and wantsAnswer then answer = stateOf(id) end
  end
  if not isStored and word.key then
    local state, holder, effect = claim(word, id, blobs[i], due)
    isStored = state ~= 'added' or holder ~= id
    if isStored then answer = table.concat({ state, holder, effect }, '\t') end
    if effect == 'follows' then due = due + behind end
  end
  if wantsAnswer then
    -- From here on it is a line of the reply.
    answer = '\n' .. id .. '\t' .. answer
    answers = answers .. answer
    if before then redis.call('SET', stored[answered], before .. answer, 'PX', 600000) end
  end
  if not isStored then
    if word.key then
      -- Now, because a later job of the call can have the same key.
      redis.call('HSET', jobs, id, blobs[i])
    else
      fields[#fields + 1] = id
      fields[#fields + 1] = blobs[i]
    end
    added[id] = due > now and 'delayed' or 'ready'
    tell('added', id, nameOf(blobs[i]), added[id])
    if due > now then
      delay(entry, due)
    elseif word.front then
      if word.group then enterGroups({ entry }, true) else redis.call('LPUSH', waiting, id) end
      wakeWorker(wake)
    else
      ready[#ready + 1] = entry
    end
  end
end
inBatches(fields, function(...) redis.call('HSET', jobs, ...) end)
if #ready > 0 then
  if grouped then ready = enterGroups(ready, false) end
  makeReady(waiting, prioritised, ready, false)
  wakeWorker(wake)
end
turnGroups(wake)
if isEarlier then wakeTimers(wake) end
inBatches(unsuspended, function(...) redis.call('ZREM', suspended, ...) end)
closeGroups()
if stored[1] then
  redis.call('SET', stored[1], sequence .. answers, 'PX', 600000)
  if claims > 0 then dropUnused(unique, jobs, dead, 2 * claims, now) end
end
recordEvents(events)
return sign .. now .. answers
