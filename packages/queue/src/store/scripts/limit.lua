-- limit.lua - changes the limits of a queue.
--
-- KEYS[1]  limits       hash    `paused`: the instant of the pause, epoch ms; `concurrency`: how many jobs may be active;
--                               `rate`, `fullAt`: see `bucket.lua`; `heldUntil`: no job starts before, as a handler wanted, epoch ms;
--                               `names`: see `names.lua`; `listened`: see `events.lua`
-- KEYS[2]  wake         zset    markers that wake workers
-- KEYS[3]  events       stream  recorded events
-- KEYS[4]  named        zset    name and member of `leases`, of active jobs whose names have a concurrency, see `names.lua`
-- KEYS[5]  changed      hash    what was changed in the last ten minutes: the instant at which its last change was requested, epoch microseconds
-- KEYS[6] grouped      zset    ready jobs that have a group, see `groups.lua`
-- KEYS[7] turns        zset    groups in the order of their turns
-- KEYS[8] held         zset    group and id of each job that has one of its group's places
-- KEYS[9] groups       hash    settings of groups
-- ARGV[1]  paused       string  `1` the queue is paused, `0` it goes on, empty: as before
-- ARGV[2]  concurrency  string  the limit from now on, `0` for none, empty: as before
-- ARGV[3]  rate         string  `count perMs burst` from now on, `0` for none, also none of a handler's; empty: as before
-- ARGV[4]  names        string  one per line: name, concurrency and paused as above, but `-`: as before
-- ARGV[5]  ofGroups     string  one per line, of each group: its name, concurrency, weight and paused, 0 for none, `-`: as before; of all groups in
--                               place of these an empty name, concurrency, retry (`wait` or `pass`), and rate (`count/perMs`, `0/0` for none)
-- ARGV[6]  askedAt      string  the instant at which the caller requested this, epoch microseconds; empty: only the reply is wanted, which is now
--
-- Reply     1     the limits are as they should be, or something newer is
--           0     more than 100 names would have limits; nothing changed
--           late  it was requested more than a minute ago; nothing changed
--           else  now, in epoch microseconds
local limits = KEYS[1]
local wake = KEYS[2]
local events = KEYS[3]
local named = KEYS[4]
local changed = KEYS[5]
local grouped = KEYS[6]
local turns = KEYS[7]
local held = KEYS[8]
local groups = KEYS[9]
local paused = ARGV[1]
local concurrency = ARGV[2]
local rate = ARGV[3]
local names = ARGV[4]
local ofGroups = ARGV[5]
local askedAt = ARGV[6]

-- Libraries

failOnOtherType(limits, wake, named, changed)
joinGroups(true, grouped, turns, held, groups)
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
if askedAt == '' then return string.format('%.0f', micros) end
-- A client may send this call again after it has ended.
if micros > askedAt + 60000000 then return 'late' end
-- A repeat does not undo a later request. A request from the future shows that the clock was set back.
local stamps = {}
local function newest(field, value, asBefore)
  if value == asBefore then return value end
  local last = tonumber(redis.call('HGET', changed, field) or 0)
  if last > tonumber(askedAt) and last <= micros then return asBefore end
  stamps[#stamps + 1] = field
  stamps[#stamps + 1] = askedAt
  return value
end
paused = newest('paused', paused, '')
concurrency = newest('concurrency', concurrency, '')
rate = newest('rate', rate, '')
listen(limits)
local wasPaused = redis.call('HEXISTS', limits, 'paused') == 1
local now = string.format('%.0f', math.floor(micros / 1000))
local text
-- Members of `named` whose names no longer have limits: nothing else would remove them.
local leaving = {}
if names ~= '' then
  local known, order, limited = {}, {}, 0
  local function limitsOf(name)
    if not known[name] then
      known[name] = { '0', '0' }
      order[#order + 1] = name
    end
    return known[name]
  end
  for name, most, since in string.gmatch(redis.call('HGET', limits, 'names') or '', '(%S+) (%d+) (%d+)') do
    local one = limitsOf(name)
    one[1], one[2] = most, since
  end
  for name, most, isPaused in string.gmatch(names, '(%S+) (%S+) (%S+)') do
    local one = limitsOf(name)
    most, isPaused = newest('most ' .. name, most, '-'), newest('paused ' .. name, isPaused, '-')
    if most ~= '-' then one[1] = most end
    if isPaused == '0' then one[2] = '0' elseif isPaused == '1' and one[2] == '0' then one[2] = now end
  end
  text = ''
  for _, name in ipairs(order) do
    local line = table.concat(known[name], ' ')
    if line ~= '0 0' then
      text = text .. '\n' .. name .. ' ' .. line
      limited = limited + 1
    else
      -- A name has at most 1,000 active jobs.
      local range = redis.call('ZRANGE', named, '[' .. name .. ' ', '(' .. name .. '!', 'BYLEX', 'LIMIT', 0, 1000)
      for _, member in ipairs(range) do leaving[#leaving + 1] = member end
    end
  end
  if limited > 100 then return 0 end
  if text ~= '' then redis.call('HSET', limits, 'names', text) end
end
-- Settings of groups that no longer have any.
local unset = {}
for group, most, second, isPaused in string.gmatch(ofGroups, '([^ \n]*) (%S+) (%S+) (%S+)') do
  local was = redis.call('HGET', groups, group) or ''
  local one = { string.match(was, group == '' and '^(%d+) (%l+) (%d+ %d+)$' or '^(%d+) (%d+) (%d+)$') }
  if not one[1] then one = group == '' and { '0', 'wait', '0 0' } or { '0', '0', '0' } end
  most = newest('groupMost ' .. group, most, '-')
  second = newest('groupTurn ' .. group, second, '-')
  isPaused = newest('groupPaused ' .. group, isPaused, '-')
  if most ~= '-' then one[1] = most end
  if second ~= '-' then one[2] = second end
  if group == '' then
    if isPaused ~= '-' then one[3] = (string.gsub(isPaused, '/', ' ')) end
  elseif isPaused == '0' and one[3] ~= '0' then
    one[3] = '0'
    tell('resumed', '', group)
  elseif isPaused == '1' and one[3] == '0' then
    one[3] = now
    tell('paused', '', group)
  end
  local text = table.concat(one, ' ')
  if redis.call('HEXISTS', groups, '') == 0 then redis.call('HSET', groups, '', '0 wait 0 0') end
  redis.call('HSET', groups, group, text)
  if text == '0 0 0' then unset[#unset + 1] = group end
  -- A resumed group no longer waits because a handler requested it.
  if group ~= '' then
    seats.hasOwn = true
    local facts = meetGroup(group)
    if isPaused == '0' then facts.opensAt = 0 end
  end
end
-- A higher concurrency of all groups lets jobs start immediately in the first 1,000 groups that have active jobs. In other groups, it does so
-- when their next job ends.
if string.find(ofGroups, '^ ') or string.find(ofGroups, '\n ', 1, true) then
  local from = '-'
  for _ = 1, 1000 do
    local group = string.match(redis.call('ZRANGE', held, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1] or '', '^%S+')
    if not group then break end
    meetGroup(group)
    from = '[' .. group .. '!'
  end
end
turnGroups(wake)
if paused == '1' and not wasPaused then
  redis.call('HSET', limits, 'paused', now)
  tell('paused')
end
if paused == '0' and wasPaused then tell('resumed') end
if concurrency ~= '' and concurrency ~= '0' then redis.call('HSET', limits, 'concurrency', concurrency) end
-- The first rate starts with a full bucket. A changed rate keeps the pieces of the last one, so a change alone lets no job start.
if rate ~= '' and rate ~= '0' then
  local former, fullAt = unpack(redis.call('HMGET', limits, 'rate', 'fullAt'), 1, 2)
  if former ~= rate then
    local piece, full = bucketOf(rate, '0', micros)
    local pieces = full / piece
    if former then
      local formerPiece, formerFull, missing = bucketOf(former, fullAt, micros)
      pieces = math.min(pieces, (formerFull - missing) / formerPiece)
    end
    redis.call('HSET', limits, 'rate', rate, 'fullAt', string.format('%.0f', micros + full - pieces * piece))
  end
end
-- The workers check what they may start now. If there was no limit and there is none, nothing has changed.
if redis.call('EXISTS', limits) == 1 then wakeWorker(wake) end
local ended = {}
if paused == '0' then ended[1] = 'paused' end
if text == '' then ended[#ended + 1] = 'names' end
if concurrency == '0' then ended[#ended + 1] = 'concurrency' end
if rate == '0' then for _, field in ipairs({ 'rate', 'fullAt', 'heldUntil' }) do ended[#ended + 1] = field end end
if #ended > 0 then redis.call('HDEL', limits, unpack(ended)) end
if #stamps > 0 then
  redis.call('HSET', changed, unpack(stamps))
  redis.call('PEXPIRE', changed, 600000)
end
inBatches(leaving, function(...) redis.call('ZREM', named, ...) end)
if #unset > 0 then redis.call('HDEL', groups, unpack(unset)) end
closeGroups()
recordEvents(events)
return 1
