-- merge.lua - merges partial distributions into windows and all of time, of several series of one slot.
--
-- KEYS[n]  series  any     for each series: its distribution of all time (hash), its writer's ledger (string), and for
--                          each partial and window: the window (hash), and if there are slowest lists, its list (zset)
-- ARGV[n]  plan    string  ledgerMs (0: no ledger); then for each series: validUntil (epoch ms, 0: none), items (how
--                          many follow), seq, keys (how many of KEYS are its), keepMs, maxBins, slowest (length of the
--                          lists, 0: none), partials (how many); for each partial: windows (how many), bins, bounds,
--                          listed (how many operands each has), count, mean, m2, min, max, sum, compensation, rest; then the end of life of each
--                          window (epoch ms), name and count of each bin, the same of each bound that divides a bin, for
--                          all of time only, value and subject of each listed one
--
-- Reply     the server's epoch milliseconds, and for each series in order
--           the moments of its last window and of all time, sixteen numbers; of a batch that was merged before: the
--           result of that time
--           "late"    validUntil has passed; nothing was merged
--           "type"    a key holds another type; nothing was merged
--           error KIT_LAYOUT in its place: written by a newer version, or damaged; nothing was merged
local series = KEYS
local plan = ARGV

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ledgerMs = plan[1]
local newer = { err = 'KIT_LAYOUT a newer version wrote it' }
local huge = math.huge

local function isOf(key, type)
  local found = redis.call('TYPE', key).ok
  return found == type or found == 'none'
end

local function verdict(key, at)
  if not isOf(series[key], 'hash') or not isOf(series[key + 1], 'string') then return 'type' end
  local validUntil, _, seq, keys, _, _, slowest = unpack(plan, at, at + 6)
  local hasLists = slowest ~= '0'
  for other = key + 2, key + keys - 1 do
    local isList = hasLists and (other - key) % 2 == 1
    if not isOf(series[other], isList and 'zset' or 'hash') then return 'type' end
  end
  local layout = redis.call('HGET', series[key], 'layout')
  if layout and layout ~= '1' then return newer end
  if ledgerMs ~= '0' then
    local last, result = string.match(redis.call('GET', series[key + 1]) or '', '^(%d+) (.*)$')
    if last and tonumber(last) >= tonumber(seq) then return result end
  end
  if validUntil ~= '0' and now > tonumber(validUntil) then return 'late' end
end

-- Text that converts back to the same double, also on servers whose C library writes infinity differently.
local function text(number)
  if number == huge then return 'inf' elseif number == -huge then return '-inf' end
  return string.format('%.17g', number)
end

-- A damaged number counts as 0: an error would end the script between two series of the call.
local function number(value)
  if value == 'inf' then return huge elseif value == '-inf' then return -huge end
  return tonumber(value) or 0
end

local function momentsIn(values, first)
  return {
    count = number(values[first]),
    mean = number(values[first + 1]),
    m2 = number(values[first + 2]),
    min = number(values[first + 3]),
    max = number(values[first + 4]),
    sum = number(values[first + 5]),
    compensation = number(values[first + 6]),
    rest = number(values[first + 7]),
  }
end

-- Chan, Golub and LeVeque (1979): the moments of two samples combined.
local function combined(a, b)
  local count = a.count + b.count
  local delta = b.mean - a.mean + (b.rest - a.rest)
  local share = b.count / count
  local step = delta * share
  local mean = a.mean + step
  local rest = a.rest + (step - (mean - a.mean))
  -- The distance between two huge means of opposite sign exceeds the range of a double.
  if math.abs(delta) == huge then
    mean, rest = a.mean * (a.count / count) + b.mean * share, 0
  end
  local sum = a.sum + b.sum
  local larger, smaller = a.sum, b.sum
  if math.abs(larger) < math.abs(smaller) then larger, smaller = smaller, larger end
  -- Neumaier (1974): the part that adding the larger and the smaller has cut off.
  local compensation = a.compensation + b.compensation + ((larger - sum) + smaller)
  return {
    count = count,
    mean = mean,
    m2 = a.m2 + b.m2 + delta * delta * (a.count * share),
    min = math.min(a.min, b.min),
    max = math.max(a.max, b.max),
    sum = sum,
    compensation = math.abs(sum) == huge and 0 or compensation,
    rest = rest,
  }
end

-- Puts bins in the order of their values: negative ones, the largest number first; zero; positive ones.
local function rank(bin)
  local index = (tonumber(string.sub(bin, 2)) or -1e5) + 1e5
  return string.find(bin, 'n') and -index or index
end

-- The lowest bins become one, so that the highest stay as fine as they are.
local function collapse(key, maxBins)
  local bins = {}
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.find(field, '^[pn]%-?%d+$') or field == 'z' then bins[#bins + 1] = field end
  end
  table.sort(bins, function(a, b) return rank(a) < rank(b) end)
  local last = #bins - maxBins + 1
  for index = 1, last - 1 do
    redis.pcall('HINCRBY', key, bins[last], redis.call('HGET', key, bins[index]))
    redis.call('HDEL', key, bins[index])
  end
end

local function mergeInto(key, partial, first, last, maxBins)
  local stored = redis.call('HMGET', key, 'count', 'mean', 'm2', 'min', 'max', 'sum', 'compensation', 'rest')
  local merged = stored[1] and combined(momentsIn(stored, 1), partial) or partial
  local texts = {
    text(merged.count), text(merged.mean), text(merged.m2), text(merged.min), text(merged.max), text(merged.sum),
    text(merged.compensation), text(merged.rest),
  }
  redis.call('HSET', key, 'count', texts[1], 'mean', texts[2], 'm2', texts[3], 'min', texts[4], 'max', texts[5],
    'sum', texts[6], 'compensation', texts[7], 'rest', texts[8])
  local hasNew = false
  for bin = first, last, 2 do
    -- A bin that holds no integer stays as it is.
    local count = redis.pcall('HINCRBY', key, plan[bin], plan[bin + 1])
    hasNew = hasNew or count == tonumber(plan[bin + 1])
  end
  -- Eight fields of a window are no bins, of all time some more. A bin too many would hide that the one above it has collapsed.
  if hasNew and redis.call('HLEN', key) > maxBins + 8 then collapse(key, maxBins) end
  return table.concat(texts, ' '), not stored[1]
end

local function mergeSeries(key, at)
  local _, _, _, _, keepMs, maxBins, slowest, partials = unpack(plan, at, at + 7)
  local hasLists = slowest ~= '0'
  maxBins = tonumber(maxBins)
  local window = key + 2
  local item = at + 8
  local ofWindow, ofAll
  -- The expiry changes only when the distribution of all time, or a window, begins. Windows get theirs at the end: of a window that
  -- is over it deletes the key, and while the slot moves to another node, a script fails at a key that is gone.
  local begins, endings = false, {}
  for _ = 1, partials do
    local windows, bins, bounds, listed = unpack(plan, item, item + 3)
    local partial = momentsIn(plan, item + 4)
    local untils = item + 12
    local first = untils + windows
    local last = first + bins - 1
    local list = last + bounds + 1
    for index = 0, windows - 1 do
      local isNew
      ofWindow, isNew = mergeInto(series[window], partial, first, last, maxBins)
      if isNew then
        endings[series[window]] = plan[untils + index]
        begins = true
      end
      window = window + 1
      if hasLists then
        if listed ~= '0' then
          for entry = list, list + listed - 1, 2 do
            redis.call('ZADD', series[window], 'GT', plan[entry], plan[entry + 1])
          end
          redis.call('ZREMRANGEBYRANK', series[window], 0, -1 - slowest)
          endings[series[window]] = plan[untils + index]
        end
        window = window + 1
      end
    end
    local isNew
    ofAll, isNew = mergeInto(series[key], partial, first, list - 1, maxBins)
    begins = begins or isNew
    item = list + listed
  end
  for window, ending in pairs(endings) do redis.call('PEXPIREAT', window, ending) end
  if begins then
    redis.call('HSET', series[key], 'layout', '1')
    redis.call('PEXPIRE', series[key], keepMs)
  end
  return (ofWindow or ofAll) .. ' ' .. ofAll
end

local replies = { string.format('%.0f', now) }
local key, at = 1, 2
while series[key] do
  local _, items, seq, keys = unpack(plan, at, at + 3)
  local answer = verdict(key, at)
  if not answer then
    answer = mergeSeries(key, at)
    if ledgerMs ~= '0' then
      redis.call('SET', series[key + 1], seq .. ' ' .. answer, 'PX', ledgerMs)
    end
  end
  replies[#replies + 1] = answer
  key = key + keys
  at = at + 2 + items
end
return replies
