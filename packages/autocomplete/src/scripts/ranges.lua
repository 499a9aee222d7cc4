-- ranges.lua - the rows that start with some texts.
--
-- KEYS[1]  rows    zset     `tag suffix NUL kind id NUL weight NUL text NUL [payload]`
-- ARGV[n]  ranges  string   `from to most` of each text: where it starts and ends, as ZRANGEBYLEX has it, and how many at most
--
-- Reply     {rows, …}  those of each text, in order, as one text with byte 01 between them, which none has: a client decodes it in
--                      a fraction of the time
local rows = KEYS[1]
local ranges = ARGV

local reply = {}
for at = 1, #ranges, 3 do
  local from, to, most = unpack(ranges, at, at + 2)
  local found = redis.call('ZRANGEBYLEX', rows, from, to, 'LIMIT', 0, most)
  reply[#reply + 1] = table.concat(found, '\1')
end
return reply
