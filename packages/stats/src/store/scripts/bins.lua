-- bins.lua - keeps the number of a sketch's bins: the lowest become one, so that the highest stay as fine as they are.
--
-- Defines collapse
--
-- A bin is a field of a hash: `p` and its number, `n` and its number for negative values, `z` for zero. See sketch.ts.

-- Puts bins in the order of their values: negative ones, the largest number first; zero; positive ones.
local function rank(bin)
  local index = (tonumber(string.sub(bin, 2)) or -1e5) + 1e5
  return string.find(bin, 'n') and -index or index
end

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
