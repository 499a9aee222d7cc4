-- ranges.lua - the rows that begin with some texts.
--
-- KEYS[1]  rows    zset     `tag suffix NUL kind id NUL weight NUL text NUL [payload]`
-- ARGV[n]  ranges  string   three for each text: where it begins and ends, as ZRANGEBYLEX has it, and how many at most
--
-- Reply     {rows, …}  those of each text, in order, as one text with byte 01 between them, which none has: a client decodes it in
--                      a fraction of the time
local rows = KEYS[1]
local ranges = ARGV

local reply = {}
for at = 1, #ranges, 3 do
  local found = redis.call('ZRANGEBYLEX', rows, ranges[at], ranges[at + 1], 'LIMIT', 0, ranges[at + 2])
  reply[#reply + 1] = table.concat(found, '\1')
end
return reply
