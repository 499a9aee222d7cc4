-- log.lua - stores entries of message logs and counts their fingerprints, for several logs of one slot, each batch once.
--
-- KEYS[n]  series  any     for each log: its meta (hash), its writer's ledger (string), the streams of its levels, and for
--                          each level and window the counts (zset) and what was seen (hash)
-- ARGV[n]  plan    string  batches (see batches.lua). Each has `streams keepEntries keepMs metaMs maxDistinct`; of each stream
--                          `entries` (how many follow), and of each entry `loggedAt level text fields fingerprint`; of each window
--                          `endsAt missed counts`: its expiry (epoch ms), how often a message that is not among the counts was logged at
--                          most, how many counts follow; and of each count `fingerprint score sure firstAt lastAt sample`: score
--                          (how much more often than missed at most), sure (how often for certain), instants (epoch ms)
--
-- Reply     the server's epoch milliseconds, and for each log in order
--           "1"       stored, now or before
--           "late"    validUntil has passed; nothing was stored
--           "type"    a key holds another type; nothing was stored
--           error KIT_LAYOUT in its place: written by a newer version, or damaged; nothing was stored
local series = KEYS
local plan = ARGV

local function typeOf(index, at)
  local streams = unpack(plan, at, at)
  return index < tonumber(streams) and 'stream' or (index - streams) % 2 == 0 and 'zset' or 'hash'
end

local function write(first, last, at)
  local streams, keepEntries, keepMs, metaMs, maxDistinct = unpack(plan, at, at + 4)
  at = at + 5
  local windows = first + 2 + streams
  for stream = first + 2, windows - 1 do
    local entries = unpack(plan, at, at)
    for row = at + 1, at + 5 * entries, 5 do
      local loggedAt, level, text, fields, fingerprint = unpack(plan, row, row + 4)
      redis.call('XADD', series[stream], 'MAXLEN', keepEntries, '*', 'at', loggedAt, 'level', level, 'text', text,
        'fields', fields, 'fingerprint', fingerprint)
    end
    redis.call('PEXPIRE', series[stream], keepMs)
    at = at + 1 + 5 * entries
  end
  for window = windows, last, 2 do
    local top, seen = series[window], series[window + 1]
    local endsAt, missed, counts = unpack(plan, at, at + 2)
    for row = at + 3, at + 2 + 6 * counts, 6 do
      local fingerprint, score, sure, firstAt, lastAt, sample = unpack(plan, row, row + 5)
      countIn(top, seen, tonumber(maxDistinct), fingerprint, score, sure, firstAt, lastAt, sample)
    end
    if missed ~= '0' then addMissed(seen, missed) end
    redis.call('PEXPIREAT', top, endsAt)
    redis.call('PEXPIREAT', seen, endsAt)
    at = at + 3 + 6 * counts
  end
  redis.call('HSET', series[first], 'layout', '1')
  redis.call('PEXPIRE', series[first], metaMs)
  return '1'
end

return answered(series, plan, typeOf, write)
