-- count.lua - adds to counters, for several series of one slot: to totals and time buckets, each batch once.
--
-- KEYS[n]  series  any     for each series: its total (hash), its writer's ledger (string), its chunks (hashes)
-- ARGV[n]  plan    string  ledgerMs (0: no ledger); then for each series: validUntil (epoch ms, 0: none), items (how
--                          many follow), seq, amount, keepMs, chunks (how many), and for each chunk: until (epoch
--                          ms), buckets (how many), and for each bucket its number and its amount
--
-- Reply     the server's epoch milliseconds, and for each series in order
--           its new total; of a batch that was counted before: the result of that time
--           "late"      validUntil has passed; nothing was added
--           "type"      a key holds another type; nothing was added
--           error KIT_LAYOUT in its place: written by a newer version, or damaged; nothing was added
--           "overflow"  the total would pass 2^53 - 1; nothing was added
local series = KEYS
local plan = ARGV

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ledgerMs = plan[1]
local newer = { err = 'KIT_LAYOUT a newer version wrote it' }
local largest = 9007199254740991

local function isOf(key, type)
  local found = redis.call('TYPE', key).ok
  return found == type or found == 'none'
end

-- The refusal of a series that must not be written; nil if it may be.
local function verdict(key, chunks, validUntil, seq, amount)
  if not isOf(series[key], 'hash') or not isOf(series[key + 1], 'string') then return 'type' end
  for chunk = key + 2, key + 1 + chunks do
    if not isOf(series[chunk], 'hash') then return 'type' end
  end
  local stored = redis.call('HMGET', series[key], 'layout', 'total')
  -- HINCRBY takes digits only, where a Lua number may also be 1.5 or 1e3.
  local total = tonumber(string.match(stored[2] or '0', '^%d+$'))
  if not total or (stored[1] and stored[1] ~= '1') then return newer end
  if ledgerMs ~= '0' then
    local last, result = string.match(redis.call('GET', series[key + 1]) or '', '^(%d+) (.*)$')
    if last and tonumber(last) >= tonumber(seq) then return result end
  end
  if validUntil ~= '0' and now > tonumber(validUntil) then return 'late' end
  if total + tonumber(amount) > largest then return 'overflow' end
end

local replies = { string.format('%.0f', now) }
local key, at = 1, 2
while series[key] do
  local validUntil, items, seq, amount, keepMs, chunks = unpack(plan, at, at + 5)
  local answer = verdict(key, chunks, validUntil, seq, amount)
  if not answer then
    local total = redis.call('HINCRBY', series[key], 'total', amount)
    local isNew = total == tonumber(amount)
    local item = at + 6
    for chunk = key + 2, key + 1 + chunks do
      local ending, buckets = plan[item], plan[item + 1]
      local hasNew = false
      for place = item + 2, item + 2 * buckets, 2 do
        local bucket, added = plan[place], plan[place + 1]
        -- A bucket that holds no integer stays as it is: an error would end the script between two series of the call.
        local sum = redis.pcall('HINCRBY', series[chunk], bucket, added)
        -- If the sum equals the added amount, the bucket is new, and perhaps also the chunk.
        hasNew = hasNew or sum == tonumber(added)
      end
      if hasNew then redis.call('PEXPIREAT', series[chunk], ending) end
      isNew = isNew or hasNew
      item = item + 2 + 2 * buckets
    end
    if isNew then
      redis.call('HSET', series[key], 'layout', '1')
      redis.call('PEXPIRE', series[key], keepMs)
    end
    answer = string.format('%.0f', total)
    if ledgerMs ~= '0' then
      redis.call('SET', series[key + 1], seq .. ' ' .. answer, 'PX', ledgerMs)
    end
  end
  replies[#replies + 1] = answer
  key = key + 2 + chunks
  at = at + 2 + items
end
return replies
