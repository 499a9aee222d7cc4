-- findKeys.lua - finds keys of a queue by their prefix. Changes nothing.
-- It looks at about 1,000 keys of the server.
--
-- KEYS[1]  meta    hash    counters; its name without these four letters is the prefix of all keys of the queue
-- ARGV[1]  cursor  string  0 for the first page, then the last reply's cursor
--
-- Reply     {cursor, end, …}  cursor of the next page, 0: there is none; the rest of each key that was found
local meta = KEYS[1]
local cursor = ARGV[1]

local width = #meta - 4
local head = string.gsub(string.sub(meta, 1, width), '[*?%[%]\\]', '\\%0')
local page = redis.call('SCAN', cursor, 'MATCH', head .. '*', 'COUNT', 1000)
local reply = { page[1] }
for i, key in ipairs(page[2]) do reply[i + 1] = string.sub(key, width + 1) end
return reply
