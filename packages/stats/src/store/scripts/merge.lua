-- merge.lua - merges partial distributions of several series of one slot into their windows and their total.
--
-- KEYS[n]  series  any     for each series: its distribution of all time (hash), its writer's ledger (string), and for
--                          each partial and window: the window (hash), and if there are slowest lists, its list (zset)
-- ARGV[n]  plan    string  batches (see batches.lua). Each has `keepMs maxBins slowest partials`: how long the distribution of all time
--                          lives, the maximum number of bins, the length of the lists (0: none), how many partials follow. A partial
--                          is `windows bins bounds subjects`, how many rows of each follow its moments
--                          `count mean m2 min max sum compensation rest`:
--                            `endsAt`         of each window: the end of its life (epoch ms)
--                            `field values`   of each bin: how many values it has; then of each bound that divides a bin, for all
--                                             of time only
--                            `value subject`  for the list
--
-- Reply     the server's epoch milliseconds, and for each series in order
--           the moments of its last window and of all time, sixteen numbers; of a batch that was merged before: the
--           result of that time
--           "late"    validUntil has passed; nothing was merged
--           "type"    a key holds another type; nothing was merged
--           error KIT_LAYOUT in its place: written by a newer version, or damaged; nothing was merged
local series = KEYS
local plan = ARGV

-- Merges a partial into the hash of a window or of the total. Its bins are the rows from `firstRow` to `lastRow`. Returns the merged
-- moments, and whether the hash is new.
local function mergeInto(key, partial, firstRow, lastRow, maxBins)
  local stored = redis.call('HMGET', key, unpack(momentNames))
  local isNew = not stored[1]
  local texts, fields = textsOf(isNew and partial or combined(momentsOf(unpack(stored)), partial))
  redis.call('HSET', key, unpack(fields))
  local hasNew = false
  for row = firstRow, lastRow, 2 do
    local field, values = unpack(plan, row, row + 1)
    -- A bin without an integer is not changed.
    local count = redis.pcall('HINCRBY', key, field, values)
    hasNew = hasNew or count == tonumber(values)
  end
  -- The moments of a window are not bins; the total has more such fields. One bin too many would hide that the bin above it has collapsed.
  if hasNew and redis.call('HLEN', key) > maxBins + #momentNames then collapse(key, maxBins) end
  return table.concat(texts, ' '), isNew
end

-- Adds the subjects of a partial to the list of a window.
local function list(key, firstRow, lastRow, length)
  for row = firstRow, lastRow, 2 do
    local value, subject = unpack(plan, row, row + 1)
    redis.call('ZADD', key, 'GT', value, subject)
  end
  redis.call('ZREMRANGEBYRANK', key, 0, -1 - length)
end

local function typeOf(index, at)
  local _, _, slowest = unpack(plan, at, at + 2)
  return slowest ~= '0' and index % 2 == 1 and 'zset' or 'hash'
end

local function write(first, _, at)
  local keepMs, maxBins, slowest, partials = unpack(plan, at, at + 3)
  maxBins = tonumber(maxBins)
  at = at + 4
  local window = first + 2
  local ofWindow, ofAll, isNew
  -- The expiry is set only when the total or a window is created. Windows get theirs at the end: it deletes the key of a window that
  -- is over, and while the slot moves to another node, a script fails at a key that is gone.
  local begins, endings = false, {}
  for _ = 1, partials do
    local windows, bins, bounds, subjects = unpack(plan, at, at + 3)
    at = at + 4
    local count, mean, m2, min, max, sum, compensation, rest = unpack(plan, at, at + 7)
    local partial = momentsOf(count, mean, m2, min, max, sum, compensation, rest)
    local firstWindow = at + 8
    local firstBin = firstWindow + windows
    local firstBound = firstBin + 2 * bins
    local firstSubject = firstBound + 2 * bounds
    at = firstSubject + 2 * subjects
    for row = firstWindow, firstBin - 1 do
      local endsAt = unpack(plan, row, row)
      ofWindow, isNew = mergeInto(series[window], partial, firstBin, firstBound - 1, maxBins)
      if isNew then
        endings[series[window]] = endsAt
        begins = true
      end
      window = window + 1
      if slowest ~= '0' then
        if subjects ~= '0' then
          list(series[window], firstSubject, at - 1, slowest)
          endings[series[window]] = endsAt
        end
        window = window + 1
      end
    end
    ofAll, isNew = mergeInto(series[first], partial, firstBin, firstSubject - 1, maxBins)
    begins = begins or isNew
  end
  for key, endsAt in pairs(endings) do redis.call('PEXPIREAT', key, endsAt) end
  if begins then
    redis.call('HSET', series[first], 'layout', '1')
    redis.call('PEXPIRE', series[first], keepMs)
  end
  return (ofWindow or ofAll) .. ' ' .. ofAll
end

return answered(series, plan, typeOf, write)
