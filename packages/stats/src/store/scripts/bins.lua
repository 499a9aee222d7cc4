-- bins.lua - limits the number of a sketch's bins: the lowest bins become one, so that the highest stay precise.
--
-- Defines collapse
--
-- A bin is a field of a hash: `p` and its number, `n` and its number for negative values, `z` for zero. See sketch.ts.

-- Sorts bins by value: negative bins, the largest number first; zero; positive bins.
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
