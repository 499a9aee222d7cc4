-- readNotes.lua - reads notes of a job. Changes nothing.
--
-- KEYS[1]  notes   hash     of the job
-- ARGV[1]  of      string   when the job was added, in base 36; empty: of the last job of this id
-- ARGV[2]  after   integer  only lines with a higher number
-- ARGV[3]  count   integer  how many lines, at most 1,000; -n: the last n
--
-- Reply     {progress, progressAt, checkpoint, first, next, from, line, …}: JSON or empty; epoch ms or empty; JSON or empty; the number
--           of the first line that is kept, and of the next one to come; the number of the first line that follows. Empty: no notes
--           error KIT_LAYOUT  the stored numbers are damaged
local notes = KEYS[1]
local of = ARGV[1]
local after = tonumber(ARGV[2])
local count = tonumber(ARGV[3])

local found = redis.call('HMGET', notes, 'of', 'progress', 'progressAt', 'checkpoint', 'first', 'next')
if not found[1] or (of ~= '' and found[1] ~= of) then return {} end
local first, last = tonumber(found[5]) or 0, (tonumber(found[6]) or 0) - 1
-- The loop below would keep the server busy for ever. At most 1,000 lines are kept.
if not (first >= 1 and first < last + 2 and last < math.min(2^53, first + 2000)) then return { err = 'KIT_LAYOUT' } end
local from = math.max(first, after + 1)
if count < 0 then from = math.max(from, last + 1 + count)
else last = math.min(last, from + count - 1) end
local reply = { found[2] or '', found[3] or '', found[4] or '', found[5], found[6], string.format('%d', from) }
local fields = {}
for line = from, last do fields[#fields + 1] = string.format('%d', line) end
if #fields > 0 then
  for _, line in ipairs(redis.call('HMGET', notes, unpack(fields))) do reply[#reply + 1] = line or '' end
end
return reply
