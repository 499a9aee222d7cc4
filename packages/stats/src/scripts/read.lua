-- read.lua - reads hashes of one slot at one instant.
--
-- KEYS[n]  hashes  hash  what to read
--
-- Reply     the server's epoch milliseconds, and for each key an array of its fields and values
local hashes = KEYS

local time = redis.call('TIME')
local found = { string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)) }
for index, key in ipairs(hashes) do
  found[index + 1] = redis.call('HGETALL', key)
end
return found
