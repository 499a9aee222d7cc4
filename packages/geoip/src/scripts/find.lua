-- find.lua - searches one page for an address, so that a client need not fetch it.
--
-- KEYS[1]  shard    hash    pages
-- ARGV[1]  field    string  number of the page in its shard
-- ARGV[2]  address  string  4 or 16 bytes, big-endian
--
-- Reply     { first, place, next }  bytes of the range's first address, its place, bytes of the next range's first address
--                                   (empty: it is in the next page)
--           {}                      there is no such page, or it is damaged
local shard = KEYS[1]
local field = ARGV[1]
local address = ARGV[2]

local page = redis.call('HGET', shard, field)
if not page or #page < 10 then return {} end
local width = string.byte(page, 5)
if width > #address or width < 4 then return {} end
local size = width + 4
local count = math.floor((#page - 5) / size)
if count * size ~= #page - 5 then return {} end

-- Compared by bytes: the order of Lua's strings depends on the server's locale.
local function isAtOrBefore(at)
  for index = 1, width do
    local a, b = string.byte(page, at + index), string.byte(address, index)
    if a ~= b then return a < b end
  end
  return true
end

local low, high = 0, count - 1
while low < high do
  local middle = math.floor((low + high + 1) / 2)
  if isAtOrBefore(5 + middle * size) then low = middle else high = middle - 1 end
end
local at = 5 + low * size
local a, b, c, d = string.byte(page, at + width + 1, at + width + 4)
local following = low + 1 < count and string.sub(page, at + size + 1, at + size + width) or ''
return {
  string.sub(page, at + 1, at + width), string.format('%.0f', ((a * 256 + b) * 256 + c) * 256 + d), following
}
