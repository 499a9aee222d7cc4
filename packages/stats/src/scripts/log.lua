-- log.lua - stores entries of message logs and counts their fingerprints, for several logs of one slot, each batch once.
--
-- KEYS[n]  series  any     for each log: its meta (hash), its writer's ledger (string), the streams of its levels, and for
--                          each level and window the counts (zset) and what was seen (hash)
-- ARGV[n]  plan    string  ledgerMs (0: no ledger); then for each log: validUntil (epoch ms, 0: none), items (how many
--                          follow), seq, streams (how many), windows (how many), keepEntries, keepMs, metaMs, maxDistinct;
--                          for each stream: entries (how many), and for each: at, level, text, fields, fingerprint;
--                          for each window: until (epoch ms), missed (how often a message that is not among the counts was
--                          logged at most), counts (how many), and for each: fingerprint, score (how much more often than
--                          missed at most), sure (how often for certain), first and last (epoch ms), sample
--
-- Reply     the server's epoch milliseconds, and for each log in order
--           "1"       stored, now or before
--           "late"    validUntil has passed; nothing was stored
--           "type"    a key holds another type; nothing was stored
--           error KIT_LAYOUT in its place: written by a newer version, or damaged; nothing was stored
local series = KEYS
local plan = ARGV

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ledgerMs = plan[1]
local newer = { err = 'KIT_LAYOUT a newer version wrote it' }

local function isOf(key, type)
  local found = redis.call('TYPE', key).ok
  return found == type or found == 'none'
end

local function verdict(key, at)
  local validUntil, _, seq, streams, windows = unpack(plan, at, at + 4)
  if not isOf(series[key], 'hash') or not isOf(series[key + 1], 'string') then return 'type' end
  local window = key + 2 + streams
  for stream = key + 2, window - 1 do
    if not isOf(series[stream], 'stream') then return 'type' end
  end
  for place = window, window + 2 * windows - 2, 2 do
    if not isOf(series[place], 'zset') or not isOf(series[place + 1], 'hash') then return 'type' end
  end
  local layout = redis.call('HGET', series[key], 'layout')
  if layout and layout ~= '1' then return newer end
  if ledgerMs ~= '0' then
    local last = string.match(redis.call('GET', series[key + 1]) or '', '^%d+')
    if last and tonumber(last) >= tonumber(seq) then return '1' end
  end
  if validUntil ~= '0' and now > tonumber(validUntil) then return 'late' end
end

-- What a message that is not listed was counted, under the empty name, which is no fingerprint: the sum of what the batches
-- have missed, and the largest score that has left the list.
local function boundsOf(seen)
  local missed, evicted = string.match(redis.call('HGET', seen, '') or '', '^(%d+) (%d+)$')
  return tonumber(missed or 0), tonumber(evicted or 0)
end

local function setBounds(seen, missed, evicted)
  redis.call('HSET', seen, '', string.format('%.0f %.0f', missed, evicted))
end

-- Metwally, Agrawal and El Abbadi (2005), Space-Saving: in a full list a new member takes the place of the smallest, and
-- may have been counted as often as that was.
local function countIn(top, seen, item, maxDistinct)
  local fingerprint, score, sure, first, last, sample = unpack(plan, item, item + 5)
  local replaced
  if redis.call('ZSCORE', top, fingerprint) then
    local stored = redis.call('HGET', seen, fingerprint) or ''
    local before, from, to, text = string.match(stored, '^(%d+) (%d+) (%d+) (.*)$')
    if before then
      sure = string.format('%.0f', before + sure)
      sample = text
      if tonumber(from) < tonumber(first) then first = from end
      if tonumber(to) > tonumber(last) then last = to end
    end
  else
    local missed, evicted = boundsOf(seen)
    if redis.call('ZCARD', top) >= maxDistinct then
      local smallest = redis.call('ZRANGE', top, 0, 0, 'WITHSCORES')
      replaced = smallest[1]
      evicted = math.max(evicted, tonumber(smallest[2]))
      setBounds(seen, missed, evicted)
    end
    redis.call('ZADD', top, string.format('%.0f', evicted), fingerprint)
  end
  redis.call('ZINCRBY', top, score, fingerprint)
  redis.call('HSET', seen, fingerprint, sure .. ' ' .. first .. ' ' .. last .. ' ' .. sample)
  -- Comes last: it might empty the keys, and while the slot moves to another node, a script fails at a key that is gone.
  if replaced then
    redis.call('ZREM', top, replaced)
    redis.call('HDEL', seen, replaced)
  end
end

local function store(key, at)
  local _, _, _, streams, windows, keepEntries, keepMs, metaMs, maxDistinct = unpack(plan, at, at + 8)
  local window = key + 2 + streams
  local item = at + 9
  for stream = key + 2, window - 1 do
    local entries = plan[item]
    for entry = item + 1, item + 5 * entries, 5 do
      local writtenAt, level, text, fields, fingerprint = unpack(plan, entry, entry + 4)
      redis.call('XADD', series[stream], 'MAXLEN', keepEntries, '*', 'at', writtenAt, 'level', level, 'text', text,
        'fields', fields, 'fingerprint', fingerprint)
    end
    redis.call('PEXPIRE', series[stream], keepMs)
    item = item + 1 + 5 * entries
  end
  for place = window, window + 2 * windows - 2, 2 do
    local ending, more, counts = unpack(plan, item, item + 2)
    for counted = item + 3, item + 2 + 6 * counts, 6 do
      countIn(series[place], series[place + 1], counted, tonumber(maxDistinct))
    end
    if more ~= '0' then
      local missed, evicted = boundsOf(series[place + 1])
      setBounds(series[place + 1], missed + more, evicted)
    end
    redis.call('PEXPIREAT', series[place], ending)
    redis.call('PEXPIREAT', series[place + 1], ending)
    item = item + 3 + 6 * counts
  end
  redis.call('HSET', series[key], 'layout', '1')
  redis.call('PEXPIRE', series[key], metaMs)
end

local replies = { string.format('%.0f', now) }
local key, at = 1, 2
while series[key] do
  local _, items, seq, streams, windows = unpack(plan, at, at + 4)
  local answer = verdict(key, at)
  if not answer then
    store(key, at)
    if ledgerMs ~= '0' then redis.call('SET', series[key + 1], seq, 'PX', ledgerMs) end
    answer = '1'
  end
  replies[#replies + 1] = answer
  key = key + 2 + streams + 2 * windows
  at = at + 2 + items
end
return replies
