-- step.lua - ends and takes jobs.
-- A worker needs no other call: this one also promotes due jobs and reclaims ended leases.
--
-- KEYS[1]   jobs         hash     id to header and payload
-- KEYS[2]   waiting      list     ids of ready jobs of priority 0
-- KEYS[3]   prioritised  zset     ids of the other ready jobs
-- KEYS[4]   delayed      zset     entry to the instant at which it is due, ms
-- KEYS[5]   leases       zset     take id and entry to the instant at which the lease ends, ms
-- KEYS[6]   wake         zset     markers that wake workers
-- KEYS[7]   failures     hash     id to attempts, crashes, last error
-- KEYS[8]   dead         zset     id to the instant of its death
-- KEYS[9]   revoked      zset     leases that ended without their holder
-- KEYS[10]  meta         hash     counters
-- KEYS[11]  taken        string   the last take in this slot of its worker: its take id, then its entries, one per line
-- KEYS[12]  limits       hash     what keeps jobs from starting, see `limit.lua`; it exists only while something does
-- KEYS[13]  events       stream   recorded events
-- KEYS[14]  suspended    zset     ready jobs whose names are stopped, see `names.lua`
-- KEYS[15]  named        zset     name and member of `leases`, of active jobs whose names have a concurrency, see `names.lua`
-- KEYS[16]  families     hash     the open and ended children of each parent, see `flow.lua`
-- KEYS[17] grouped     zset     ready jobs that have a group, see `groups.lua`
-- KEYS[18] turns       zset     groups in the order of their turns
-- KEYS[19] held        zset     group and id of each job that has one of its group's places
-- KEYS[20] groups      hash     settings of groups
-- KEYS[n]   replies      hash     for each caller: id to what became of the job
-- ARGV[1]   takeId       string   12 characters, of this call alone
-- ARGV[2]   count        integer  how many jobs to take at most, up to 500
-- ARGV[3]   sure         integer  how many of them to take even if other workers are idle
-- ARGV[4]   room         string   `maxBytes first`: how many bytes of jobs to take at most, though at least one job; how many jobs to read
--                                 first, since they may be large; empty: 4 MiB, and all jobs in one go
-- ARGV[5]   leaseMs      integer  length of their leases
-- ARGV[6]   flags        string   words: `woken` the call follows a wait; `look` for due jobs and ended leases; `time` reply with the time
--                                 even if idle; `announce` the worker had no job: if it takes one, wake the idle workers to watch its lease
-- ARGV[7]   bounds       string   `maxCrashes maxCount maxAgeMs maxBytes`: crashes that make a job a dead letter, and how
--                                 many letters are kept
-- ARGV[8]   maintenance  string   completed jobs to count, then drop old dead letters; empty: neither is due
-- ARGV[9]   done         string   members of `leases` whose jobs are done, one per line; made ids only, which are never reused
-- ARGV[n]   others       string   `member verdict record answer` of each other job that ended: its member; `done`, `expired` or `dead`;
--                                 `retry=500`: ms until the next attempt; `snooze=500`: the same for a snoozed job; `halt=500`: ms in which
--                                 no job of its group starts, then this one is its first; `hold=500`: ms in
--                                 which no job starts, then this one is the first. After the word `leads` if it may have a successor or
--                                 a parent, or has children, and `unbegun` if it was taken under limits and did not start: then the rate does not count it. Its
--                                 new record for `failures`, empty if it is done; the reply for its caller,
--                                 empty if no call waits: which of `replies`, its channel, its name, the outcome; of a child that is done 0 and
--                                 the outcome
--
-- Reply     {blob, …, entries, records, refused, reclaimed, state}: the jobs that were taken, in order (of a repeat: those still leased);
--           their entries, one per line; their records in `failures`, one per line, empty if no job has one; members whose ends are
--           refused, since their leases had been reclaimed, one per line, with a tab and `cancelled` if their jobs were cancelled;
--           members that this call reclaimed, one per line, each with a tab and its crashes, or `gone` if there is no such
--           job, and with a tab and `dead` if it is; `now nextDue nextEnd promoted isMore nextStart isStopped young` in epoch microseconds (0: idle) and ms, -1 for
--           none, -2 for not looked; `nextStart`: when a ready job may start if only time keeps it from that; -2: the queue has no limits;
--           `isStopped`: 1 if no job may start, since the queue is paused, or a handler requested it; `young`: how many dead letters of the
--           last hour were dropped
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local leases = KEYS[5]
local wake = KEYS[6]
local failures = KEYS[7]
local dead = KEYS[8]
local revoked = KEYS[9]
local meta = KEYS[10]
local taken = KEYS[11]
local limits = KEYS[12]
local events = KEYS[13]
local suspended = KEYS[14]
local named = KEYS[15]
local families = KEYS[16]
local grouped = KEYS[17]
local turns = KEYS[18]
local held = KEYS[19]
local groups = KEYS[20]
local replies = { unpack(KEYS, 21) }
local takeId = ARGV[1]
local count = tonumber(ARGV[2])
local sure = tonumber(ARGV[3])
local room = ARGV[4]
local leaseMs = tonumber(ARGV[5])
local flags = ARGV[6]
local bounds = ARGV[7]
local maintenance = ARGV[8]
local done = ARGV[9]
local others = { unpack(ARGV, 10) }

local isWoken = string.find(flags, 'woken', 1, true)
local looks = string.find(flags, 'look', 1, true)
local takes = count > 0
local now, micros = 0, '0'
local function readClock()
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  micros = string.format('%.0f', time[1] * 1000000 + time[2])
end

local function recordOf(entries)
  return takeId .. '\n' .. table.concat(entries, '\n')
end

-- Restores and returns the former record, if it is of this take or of a later take.
local function repeated(last)
  if type(last) ~= 'string' or tonumber(string.sub(last, 8, 12), 36) < tonumber(string.sub(takeId, 8, 12), 36) then return nil end
  redis.pcall('SET', taken, last, 'PX', 600000)
  return last
end

local readyCount = takes and redis.call('LLEN', waiting) or 0
-- Most waits end on an idle queue. This part also works on a server that rejects writes.
local isMaintained = maintenance ~= '' and (maintenance ~= '0' or redis.call('EXISTS', dead) == 1)
if isWoken and readyCount == 0 and not isMaintained and redis.call('EXISTS', prioritised, delayed, leases, suspended, grouped) == 0 then
  repeated(redis.pcall('SET', taken, recordOf({}), 'PX', 600000, 'GET'))
  if string.find(flags, 'time', 1, true) then readClock() end
  return { '', '', '', '', micros .. ' -1 -1 0 0 -2 0 0' }
end

-- Lua allows 200 locals at a time.
do
  -- Ends and takes a few plain jobs while nothing is stored that could stop them. Nil: the rest of the script decides; nothing was changed.
  -- It uses no library: building the functions of the libraries takes longer than all its commands.
  local function usualStep()
    local isPlain = maintenance == '' and #others == 0 and not string.find(flags, 'announce', 1, true) and not string.find(done, '!', 1, true)
    local isFew = #done < 600 and (readyCount <= sure or count == sure)
    if not isPlain or not isFew or redis.call('EXISTS', prioritised, limits, suspended, grouped) > 0 then return nil end

    if takes or looks or string.find(flags, 'time', 1, true) then readClock() end
    local members, goneIds, isEnding = {}, {}, {}
    for member in string.gmatch(done, '[^\n]+') do
      members[#members + 1] = member
      goneIds[#goneIds + 1] = string.sub(member, 13)
      isEnding[member] = true
    end
    for _, ends in ipairs(#members > 0 and redis.call('ZMSCORE', leases, unpack(members)) or {}) do
      if not ends then return nil end
    end
    local nextDue, nextEnd = -2, -2
    if looks then
      nextDue = tonumber(redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2] or -1)
      nextEnd = -1
      local first = redis.call('ZRANGE', leases, 0, #members, 'WITHSCORES')
      for i = #first, 2, -2 do
        if not isEnding[first[i - 1]] then nextEnd = tonumber(first[i]) end
      end
      if nextDue >= 0 and nextDue <= now or nextEnd >= 0 and nextEnd <= now then return nil end
    end
    local hasFailures = redis.call('HLEN', failures) > 0
    local ids, reply, records = {}, {}, ''
    if readyCount > 0 then
      local maxBytes, firstRead = string.match(room, '^(%d+) (%d+)$')
      if math.min(readyCount, count) > tonumber(firstRead or count) then return nil end
      ids = redis.call('LRANGE', waiting, 0, count - 1)
      reply = redis.call('HMGET', jobs, unpack(ids))
      local bytes = 0
      for i = 1, #ids do
        if not reply[i] then return nil end
        bytes = bytes + #reply[i]
      end
      if bytes > tonumber(maxBytes or 4194304) and #ids > 1 then return nil end
      if hasFailures then
        local found = redis.call('HMGET', failures, unpack(ids))
        for i = 1, #ids do found[i] = found[i] or '' end
        records = table.concat(found, '\n')
      end
    end
    local leaves = isWoken and readyCount > #ids
    if leaves then failOnOtherType(wake) end
    -- The taken jobs were read from this key, so its type is right. `SET` with `GET` fails on another type of `taken`, before any change.
    if #members > 0 and #ids == 0 then failOnOtherType(jobs) end

    if takes then
      allowWrites(leases)
      if repeated(redis.call('SET', taken, recordOf(ids), 'PX', 600000, 'GET')) then return nil end
      if leaves then redis.call('ZADD', wake, 0, 'job') end
    end
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = table.concat(ids, '\n'), records, '', ''
    if #ids > 0 then
      local ends = now + leaseMs
      if looks and (nextEnd < 0 or ends < nextEnd) then nextEnd = ends end
      local taking = {}
      for i = 1, #ids do
        taking[2 * i - 1] = string.format('%.0f', ends)
        taking[2 * i] = takeId .. ids[i]
      end
      redis.call('ZADD', leases, unpack(taking))
      redis.call('LTRIM', waiting, #ids, -1)
    end
    if #members > 0 then
      redis.call('ZREM', leases, unpack(members))
      redis.call('HDEL', jobs, unpack(goneIds))
      if hasFailures then redis.call('HDEL', failures, unpack(goneIds)) end
    end
    reply[n + 5] = string.format('%s %.0f %.0f 0 0 -2 0 0', micros, nextDue, nextEnd)
    return reply
  end
  local usual = usualStep()
  if usual then return usual end
end

-- Libraries

-- These functions use none of the locals above: each shared local makes a function slower to build.

-- The members that are leased. A repeat may name leases that have ended before.
local function leasedOf(leases, members)
  local leased = {}
  for i, ends in ipairs(#members > 0 and redis.call('ZMSCORE', leases, unpack(members)) or {}) do
    if ends then leased[#leased + 1] = members[i] end
  end
  return leased
end

-- JSON has no control characters, so they can replace its escapes: the next quote then ends the text.
local function withoutStacks(record)
  local text = string.gsub(string.gsub(record, '\\\\', '\1'), '\\"', '\2')
  text = string.gsub(text, ',"stack":"[^"]*"', '')
  return (string.gsub(string.gsub(text, '\2', '\\"'), '\1', '\\\\'))
end

local function remove(key, members)
  if #members > 0 then redis.call('ZREM', key, unpack(members)) end
end

-- Guards: Redis rejects a command on a key of another type. Here, nothing has changed yet.

readClock()
allowWrites(leases)
local isRare, isLimited = redis.call('EXISTS', prioritised, failures, limits, suspended, grouped, turns, held, groups) > 0, false
-- An idle worker pops its markers, so `wake` exists only while no worker is idle.
local onlySure = sure < count and redis.call('EXISTS', wake) == 0
if onlySure then count = sure end
local isFull = isRare or looks or maintenance ~= '' or #others > 0
if isFull or count == 0 then
  failOnOtherType(waiting, jobs)
end
if isFull then
  failOnOtherType(prioritised, delayed, wake, dead, revoked)
  failOnOtherType(failures)
  isLimited = isRare and redis.call('EXISTS', limits, suspended) > 0
  failOnOtherType(meta, taken, families)
  for _, key in ipairs(replies) do redis.call('HLEN', key) end
end
joinGroups(isRare, grouped, turns, held, groups)
local paused, concurrency, rate, fullAt, heldUntil, names, listened, hasSuspended
if isLimited then
  paused, concurrency, rate, fullAt, heldUntil, names, listened =
    unpack(redis.call('HMGET', limits, 'paused', 'concurrency', 'rate', 'fullAt', 'heldUntil', 'names', 'listened'), 1, 7)
  hasSuspended = redis.call('ZCARD', suspended) > 0
  failOnOtherType(named)
  isLimited = paused or concurrency or rate or heldUntil or names or hasSuspended
end
lines = listened and now < tonumber(listened) and {}

-- Ended jobs

local refused, reclaimed, ready, first = {}, {}, {}, {}
-- Removals come last. After a removal that may empty a key, no command uses that key: while its slot moves to another node, a script fails
-- at a key that is gone.
local members, endedMembers, goneIds, isEnding = {}, {}, {}, {}
for member in string.gmatch(done, '[^\n]+') do
  members[#members + 1] = member
  if looks or #others > 0 or isLimited then isEnding[member] = true end
end
if string.find(done, '@', 1, true) then
  local entries, names, ids = {}, {}, {}
  for _, member in ipairs(leasedOf(leases, members)) do
    local entry = leasedEntry(member)
    local group, id = groupOf(entry)
    if group then
      local n = #names + 1
      entries[n], names[n], ids[n] = entry, group, id
    end
  end
  expectGroups(names)
  for i, entry in ipairs(entries) do vacate(entry, names[i], ids[i]) end
end

-- Stores an outcome for its caller. The ids are published together at the end.
local notified = {}
local function notify(id, answer)
  local number, channel, caller, outcome = string.match(answer, '^(%d+) (%S+) (%w+) (.*)$')
  local key = replies[tonumber(number)]
  redis.call('HSET', key, id, outcome)
  redis.call('PEXPIRE', key, 600000)
  local ids = notified[number] or { channel = channel, caller = caller }
  notified[number] = ids
  ids[#ids + 1] = id
end

-- Releases the jobs that wait until this job ends.
local function release(id, outcome)
  releaseSuccessor(jobs, delayed, wake, id)
  looks = settle(jobs, delayed, wake, failures, dead, meta, families, id, outcome) or looks
end

local mayHaveDied, unbegun = false, 0
for i = 1, #others, 4 do
  local member, verdict, record, answer = unpack(others, i, i + 3)
  local entry = leasedEntry(member)
  local id = idOf(entry)
  if isEnding[member] or not redis.call('ZSCORE', leases, member) then
    refused[#refused + 1] = revokedAs(revoked, member)
  else
    isEnding[member] = true
    endedMembers[#endedMembers + 1] = member
    local way, wait, more = string.match(verdict, '^(%a+)=?(%d*)(.*)$')
    if string.find(more, 'unbegun', 1, true) then unbegun = unbegun + 1 end
    local outcome = string.match(answer, '^0 (.*)$')
    if outcome then answer = '' end
    settlePlace(jobs, way, entry, id)
    if way ~= 'dead' and string.find(more, 'leads', 1, true) then release(id, outcome or way) end
    if way == 'done' or way == 'expired' then
      tell(way == 'done' and 'completed' or way, id)
      goneIds[#goneIds + 1] = id
      if answer ~= '' then notify(id, answer) end
    elseif redis.call('HEXISTS', jobs, id) == 1 then
      redis.call('HSET', failures, id, record)
      isRare = true
      if lines then tell('failed', id, way, wait, withoutStacks(record)) end
      if way == 'dead' then
        makeDead(jobs, failures, dead, meta, id, now)
        release(id, 'dead\n' .. record)
        mayHaveDied = true
        if answer ~= '' then notify(id, answer) end
      elseif way == 'hold' then
        first[#first + 1] = entry
        isLimited = true
        heldUntil = math.max(heldUntil or 0, now + wait)
        redis.call('HSET', limits, 'heldUntil', string.format('%.0f', heldUntil))
      elseif way == 'halt' then
        first[#first + 1] = entry
        haltGroup(entry, now + wait)
      elseif wait == '0' then
        ready[#ready + 1] = entry
      else
        local earliest = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
        redis.call('ZADD', delayed, string.format('%.0f', now + wait), entry)
        if not earliest or tonumber(earliest) > now + wait then wakeTimers(wake) end
      end
    end
  end
end
if #ready > 0 then makeReady(waiting, prioritised, enterGroups(ready, false), false) end
if #first > 0 then makeReady(waiting, prioritised, enterGroups(returnSuspended(jobs, suspended, names, first), true), true) end

-- Promoted and reclaimed jobs

local nextDue, nextEnd, promoted, due = -2, -2, 0, {}
local ended = looks and redis.call('ZRANGEBYSCORE', leases, '-inf', string.format('%.0f', now), 'LIMIT', 0, 100) or {}
local graceUntil = (maintenance ~= '' or #ended > 0) and makeContact(meta, now, leaseMs) or 0
if looks then
  due = redis.call('ZRANGEBYSCORE', delayed, '-inf', string.format('%.0f', now), 'LIMIT', 0, 200)
  nextDue = tonumber(redis.call('ZRANGE', delayed, #due, #due, 'WITHSCORES')[2] or -1)
  makeReady(waiting, prioritised, enterGroups(due, false), false)
  promoted = #due
  for i = 1, lines and #due or 0 do tell('ready', (idOf(due[i]))) end
  local maxCrashes = tonumber(string.match(bounds, '^%d+'))
  local returned = {}
  local function reclaim(member)
    local entry = leasedEntry(member)
    local id = idOf(entry)
    endedMembers[#endedMembers + 1] = member
    isEnding[member] = true
    revoke(revoked, now, member)
    vacate(entry)
    if redis.call('HEXISTS', jobs, id) == 0 then return '\tgone' end
    local attempts, crashes, last, begun = parseRecord(redis.call('HGET', failures, id))
    -- The last crash is charged only to a job that started.
    if crashes == 0 or crashes + 1 < maxCrashes or begun == takeIdOf(member) then crashes = crashes + 1 end
    redis.call('HSET', failures, id, string.format('%s\t%d\t%s', attempts, crashes, last))
    redis.call('HINCRBY', meta, 'crashed', 1)
    tell('crashed', id, crashes, crashes >= maxCrashes and 'dead' or '', member)
    if crashes >= maxCrashes then
      makeDead(jobs, failures, dead, meta, id, now)
      release(id, 'dead\n' .. redis.call('HGET', failures, id))
      mayHaveDied = true
      return '\t' .. crashes .. '\tdead'
    end
    returned[#returned + 1] = entry
    return '\t' .. crashes
  end
  for _, member in ipairs(ended) do
    -- This call ends the others itself.
    if graceUntil == 0 and not isEnding[member] then reclaimed[#reclaimed + 1] = member .. reclaim(member) end
  end
  makeReady(waiting, prioritised, enterGroups(returnSuspended(jobs, suspended, names, returned), true), true)
  promoted = promoted + #reclaimed
end
if promoted > 0 or #ready > 0 or #first > 0 then isRare = true end
local overdue, young = {}, 0
if mayHaveDied or maintenance ~= '' then
  overdue, young = overdueDead(jobs, failures, dead, meta, bounds, now)
  for _, id in ipairs(overdue) do disband(families, id) end
end

local hasGroups = isRare and tendGroups(looks, jobs, dead, now, micros)

-- The allowance

-- How many jobs may start. Nothing is taken ahead.
local allowed = paused and 0 or math.huge
if concurrency and not paused then
  local ended = #endedMembers + #leasedOf(leases, members)
  allowed = math.max(0, concurrency - redis.call('ZCARD', leases) + ended)
end
heldUntil = tonumber(heldUntil) or 0
if heldUntil > now then allowed = 0 end
local piece, full, missing
if rate then
  piece, full, missing = bucketOf(rate, fullAt, tonumber(micros))
  missing = math.max(0, missing - unbegun * piece)
  allowed = math.min(allowed, math.max(0, math.floor((full - missing) / piece + 0.000001)))
end
isLimited = isLimited or hasGroups
if isLimited then count = math.min(sure, count, allowed) end

-- Chosen jobs: nothing changes

-- The chosen jobs: ids of jobs with a priority other than 0, and the number of jobs with priority 0.
local ranked, plain = {}, 0
local rankedLeft = isRare and redis.call('ZCARD', prioritised) or 0
local entries, chosen, begins = {}, nil, 0
local leaving = {}
local ids, reply, records = {}, {}, ''
-- Some jobs are no longer stored; there was no room for all.
local isMissing, isCut = false, false
-- Reads jobs until they have more than `most` bytes. Replies with how many fit into these bytes, at least 1. Large jobs are read in slices,
-- whose size is estimated from the slices before.
local function readJobs(entries, most, slice)
  ids = entries
  if isRare then
    ids = {}
    for i = 1, #entries do ids[i] = (idOf(entries[i])) end
  end
  local all, read, bytes = #ids, 0, 0
  while read < all do
    local found = redis.call('HMGET', jobs, unpack(ids, read + 1, read + slice < all and read + slice or all))
    if read == 0 then reply = found end
    for i = 1, #found do
      local blob = found[i]
      if blob then bytes = bytes + #blob else isMissing = true end
      if bytes > most and read + i > 1 then return read + i - 1 end
      if read > 0 then reply[read + i] = blob end
    end
    read = read + #found
    if read == all then break end
    slice = math.max(1, math.min(4 * read, math.floor((most - bytes) * read / math.max(1, bytes))))
  end
  return all
end

do
  -- How many of the chosen jobs have a priority below 0.
  local urgent = 0
  local function firstWaiting(wanted)
    local ids = redis.call('LRANGE', waiting, 0, wanted - 1)
    plain = #ids
    return ids
  end
  -- Ready jobs by priority: below 0, 0, above 0.
  local function firstRanked(wanted)
    local entries = {}
    local function takeFrom(low, high)
      local found =
        redis.call('ZRANGEBYSCORE', prioritised, low, high, 'WITHSCORES', 'LIMIT', 0, wanted - #entries)
      for i = 1, #found, 2 do
        ranked[#ranked + 1] = found[i]
        entries[#entries + 1] = entryOf(found[i], math.floor(tonumber(found[i + 1]) / band))
      end
    end
    takeFrom('-inf', '(0')
    urgent = #ranked
    if #entries < wanted then
      for _, id in ipairs(firstWaiting(wanted - #entries)) do entries[#entries + 1] = id end
    end
    if #entries < wanted then takeFrom('0', '+inf') end
    return entries
  end
  local function firstReady(wanted)
    return rankedLeft > 0 and firstRanked(wanted) or firstWaiting(wanted)
  end
  local function firstOfAll(wanted)
    return hasGroups and withGroups(count, wanted, firstReady) or firstReady(wanted)
  end
  local maxBytes, firstRead = 4194304, 500
  if room ~= '' then
    local most, slice = string.match(room, '^(%d+) (%d+)$')
    maxBytes, firstRead = tonumber(most), tonumber(slice)
  end
  if names then
    for member in pairs(isEnding) do leaving[#leaving + 1] = member end
    leaving = namedOf(jobs, named, names, leaving)
    if looks then addStale(leaving, leases, named, isEnding, micros) end
  end
  if names or hasSuspended then
    entries, ids, reply, plain, ranked, chosen =
      chooseByName(jobs, suspended, named, names, leaving, count, maxBytes, firstOfAll)
    isCut, begins = chosen.isCut, chosen.ofGroups
    for i = 1, #ids do isMissing = isMissing or not reply[i] end
  elseif count > 0 then
    entries = firstOfAll(count)
    local n = readJobs(entries, maxBytes, firstRead)
    begins = groupShare(n, #entries)
    if n < #entries then
      -- The others stay where they are.
      isCut = true
      local most = n - begins
      plain = math.max(0, math.min(plain, most - urgent))
      for _, list in ipairs({ entries, ids, reply }) do
        for i = #list, n + 1, -1 do list[i] = nil end
      end
      for i = #ranked, most - plain + 1, -1 do ranked[i] = nil end
    end
  end
end

-- Taken jobs

local recorded
if takes or maintenance ~= '' then
  recorded = repeated(redis.call('SET', taken, recordOf(entries), 'PX', 600000, 'GET'))
end
if recorded then
  -- The worker cannot know whether the former call found more.
  ranked, plain, isRare, chosen, isMissing, isCut = {}, 0, true, nil, false, true
  entries, reply = takeIdOf(recorded) == takeId and heldOf(leases, recorded) or {}, {}
  readJobs(entries, math.huge, 500)
else
  if maintenance ~= '' then
    redis.call('HINCRBY', meta, 'completed', maintenance)
    -- The data of the queue was deleted since the worker opened it.
    if redis.call('HEXISTS', meta, 'layout') == 0 then redis.call('HSET', meta, 'layout', '1') end
  end
  if chosen and #chosen.later > 0 then
    local last = 1000000000000000 + redis.call('HINCRBY', meta, 'suspended', #chosen.later)
    local members = {}
    for i, job in ipairs(chosen.later) do
      members[2 * i - 1] = 0
      members[2 * i] = placedAs(job[1], job[2], last - #chosen.later + i)
    end
    redis.call('ZADD', suspended, unpack(members))
  end
  beginGroups(begins)
  for _, job in ipairs(chosen and chosen.held or {}) do redis.call('ZADD', named, 0, job[1] .. ' ' .. takeId .. job[2]) end
end
if #entries > 0 then
  -- Also in a repeat: the worker counts the leases from this reply on.
  local ends = string.format('%.0f', now + leaseMs)
  local members = {}
  -- From the last to the first, because Redis searches a short sorted set from its start.
  local n = 2 * #entries
  for i = 1, #entries do
    members[n] = takeId .. entries[i]
    members[n - 1] = ends
    n = n - 2
  end
  redis.call('ZADD', leases, unpack(members))
  if isMissing then
    local keptBlobs, keptEntries, keptIds = {}, {}, {}
    for i, entry in ipairs(entries) do
      if reply[i] then
        local n = #keptIds + 1
        keptBlobs[n], keptEntries[n], keptIds[n] = reply[i], entry, ids[i]
      else
        endedMembers[#endedMembers + 1] = takeId .. entry
        vacate(entry)
      end
    end
    reply, entries, ids = keptBlobs, keptEntries, keptIds
  end
  if isRare and #ids > 0 and redis.call('EXISTS', failures) == 1 then
    local found = redis.call('HMGET', failures, unpack(ids))
    for i = 1, #ids do found[i] = found[i] or '' end
    records = table.concat(found, '\n')
  end
  if string.find(flags, 'announce', 1, true) then watchLeases(meta, wake, now, leaseMs) end
end
local begun = recorded and 0 or #entries
allowed = allowed - begun
if rate and begun + unbegun > 0 then
  missing = missing + begun * piece
  redis.call('HSET', limits, 'fullAt', string.format('%.0f', micros + missing))
end

-- Woken workers

local isMore = false
local isGroupLeft, opens = turnGroups(wake, true)
local function isLeft()
  return isGroupLeft or chosen and chosen.isMore or redis.call('LLEN', waiting) + rankedLeft > plain + #ranked
end
if allowed > 0 and (isWoken or isLimited or onlySure or isCut or promoted > 0 or #ready > 0) then
  isMore = isLeft()
  if isMore then wakeWorker(wake) end
end

local nextStart = isLimited and -1 or -2
if isLimited and allowed <= 0 and not paused and isLeft() then
  if heldUntil > now then nextStart = heldUntil end
  if rate and full - missing < piece then
    nextStart = math.max(nextStart, math.ceil((micros + missing - full + piece) / 1000))
  end
  -- A worker that tries receives the instant.
  if nextStart > 0 and promoted + #ready + #first > 0 then wakeWorker(wake) end
end

-- Events

do
  -- Nothing is ready, and nothing was taken.
  local isIdle = false
  if lines then
    for i = 1, recorded and 0 or #entries do tell('active', (idOf(entries[i])), nameOf(reply[i]) or '', takeId) end
    for _, member in ipairs(leasedOf(leases, members)) do tell('completed', string.sub(member, -14)) end
    for _, id in ipairs(overdue) do tell('removed', id) end
    isIdle = #entries == 0 and not hasSuspended and not hasGroups and not (chosen and #chosen.later > 0)
      and redis.call('LLEN', waiting) + redis.call('ZCARD', prioritised) == plain + #ranked
  end
  if looks and opens then nextDue = nextDue < 0 and opens or math.min(nextDue, opens) end

  -- Removals

  local leased, freed = (looks or isIdle) and redis.call('ZCARD', leases), 0
  if #members > 0 then
    freed = redis.call('ZREM', leases, unpack(members))
    for _, member in ipairs(members) do
      -- Some leases may no longer be held. Ends of reclaimed ones are refused. The others ended with an earlier arrival of this call, or
      -- were lost in a failover: in both cases their jobs are done. The lease of a dead letter was reclaimed so long ago that `revoked`
      -- no longer has it.
      local id = string.sub(member, -14)
      local refusal = freed < #members and (revokedAs(revoked, member) or redis.call('ZSCORE', dead, id) and member)
      if refusal then refused[#refused + 1] = refusal else goneIds[#goneIds + 1] = id end
    end
  end
  remove(leases, endedMembers)
  if looks then
    nextEnd = leased > freed + #endedMembers and tonumber(redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]) or -1
    if nextEnd >= 0 then nextEnd = math.max(nextEnd, graceUntil) end
  end
  for _, id in ipairs(overdue) do goneIds[#goneIds + 1] = id end
  if #goneIds > 0 then
    redis.call('HDEL', jobs, unpack(goneIds))
    if isRare then redis.call('HDEL', failures, unpack(goneIds)) end
  end
  if plain > 0 then redis.call('LTRIM', waiting, plain, -1) end
  remove(prioritised, ranked)
  if chosen then remove(suspended, chosen.brought) end
  closeGroups()
  inBatches(leaving, function(...) redis.call('ZREM', named, ...) end)
  remove(delayed, due)
  closeFamilies(delayed, families)
  remove(dead, overdue)
  if heldUntil > 0 and heldUntil <= now then redis.call('HDEL', limits, 'heldUntil') end
  if listened and not lines then redis.call('HDEL', limits, 'listened') end
  if lines then
    local ended = freed + #endedMembers
    if isIdle and ended > 0 and leased == ended then tell('drained') end
    recordEvents(events)
  end
end
-- Publishing is only a hint, so an error is ignored: the user may lack the permission.
for _, ids in pairs(notified) do redis.pcall('PUBLISH', ids.channel, ids.caller .. '\t' .. table.concat(ids, '\n')) end

-- The reply

local n = #reply
reply[n + 1] = table.concat(entries, '\n')
reply[n + 2] = records
reply[n + 3] = table.concat(refused, '\n')
reply[n + 4] = table.concat(reclaimed, '\n')
reply[n + 5] = string.format(
  '%s %.0f %.0f %d %d %.0f %d %d',
  micros, nextDue, nextEnd, promoted,
  -- Under a limit a worker with free handlers waits: it is woken when another job may start.
  isMore and (isCut or onlySure and not isLimited) and 1 or 0,
  nextStart, (paused or heldUntil > now) and 1 or 0, young
)
return reply
