-- count.lua - adds to counters, for several series of one slot: to totals and time buckets, each batch once.
--
-- KEYS[n]  series  any     for each series: its total (hash), its writer's ledger (string), its chunks (hashes)
-- ARGV[n]  plan    string  batches (see batches.lua). Each has `amount keepMs`; for each chunk `endsAt buckets` (its expiry in epoch
--                          ms, how many buckets follow); for each bucket `bucket added` (its number in the chunk)
--
-- Reply     the server's epoch milliseconds, and for each series in order
--           its new total; if the batch was counted before: the first result
--           "late"      validUntil has passed; nothing was added
--           "type"      a key holds another type; nothing was added
--           error KIT_LAYOUT in its place: written by a newer version, or damaged; nothing was added
--           "overflow"  the total would pass 2^53 - 1; nothing was added
local series = KEYS
local plan = ARGV

local function write(first, last, at, stored)
  local amount, keepMs = unpack(plan, at, at + 1)
  -- HINCRBY accepts only digits; a Lua number may also be 1.5 or 1e3.
  local before = tonumber(string.match(stored or '0', '^%d+$'))
  if not before then return nil, newerLayout end
  -- 2^53 - 1
  if before + tonumber(amount) > 9007199254740991 then return nil, 'overflow' end
  local total = redis.call('HINCRBY', series[first], 'total', amount)
  local isNew = total == tonumber(amount)
  at = at + 2
  for chunk = first + 2, last do
    local endsAt, buckets = unpack(plan, at, at + 1)
    local hasNew = false
    for row = at + 2, at + 2 * buckets, 2 do
      local bucket, added = unpack(plan, row, row + 1)
      -- A bucket without an integer is not changed: an error would end the script between two series of the call.
      local sum = redis.pcall('HINCRBY', series[chunk], bucket, added)
      -- If the sum equals the added amount, the bucket is new, and perhaps also the chunk.
      hasNew = hasNew or sum == tonumber(added)
    end
    if hasNew then redis.call('PEXPIREAT', series[chunk], endsAt) end
    isNew = isNew or hasNew
    at = at + 2 + 2 * buckets
  end
  if isNew then
    redis.call('HSET', series[first], 'layout', '1')
    redis.call('PEXPIRE', series[first], keepMs)
  end
  return string.format('%.0f', total)
end

return answered(series, plan, function() return 'hash' end, write)
