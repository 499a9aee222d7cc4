-- note.lua - adds notes to a job.
-- Only the worker that has the lease may add them, and each number counts once.
--
-- KEYS[1]  leases      zset     take id and entry to the instant at which the lease ends, ms
-- KEYS[2]  revoked     zset     leases that ended without their holder
-- KEYS[3]  notes       hash     of the job
-- ARGV[1]  member      string   of `leases`
-- ARGV[2]  of          string   when the job was added, in base 36: another job of the same id has other notes
-- ARGV[3]  number      integer  of this write under the take id, from 1
-- ARGV[4]  keepMs      integer  the notes expire this long after the write
-- ARGV[5]  maxLines    integer  how many lines stay
-- ARGV[6]  maxBytes    integer  how many bytes of lines stay
-- ARGV[7]  progress    string   JSON; empty: no change
-- ARGV[8]  checkpoint  string   JSON; empty: no change
-- ARGV[n]  lines       string   lines of the log
--
-- Reply     1 they are written, by this call or an earlier arrival; 0 the lease is no longer held; -1 the job was cancelled
--           error KIT_LAYOUT  the stored numbers are damaged; nothing was changed
local leases = KEYS[1]
local revoked = KEYS[2]
local notes = KEYS[3]
local member = ARGV[1]
local of = ARGV[2]
local number = tonumber(ARGV[3])
local keepMs = tonumber(ARGV[4])
local maxLines = tonumber(ARGV[5])
local maxBytes = tonumber(ARGV[6])
local progress = ARGV[7]
local checkpoint = ARGV[8]
local lines = { unpack(ARGV, 9) }

-- Libraries

if not redis.call('ZSCORE', leases, member) then
  local line = revokedAs(revoked, member)
  return (line and line ~= member) and -1 or 0
end
local old = redis.call('HMGET', notes, 'of', 'writer', 'first', 'next', 'bytes')
local writtenBy, last = string.match(old[2] or '', '^(%S+) (%d+)$')
if old[1] == of and writtenBy == takeIdOf(member) and tonumber(last) >= number then return 1 end
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local first, after, bytes = tonumber(old[3] or 1) or 0, tonumber(old[4] or 1) or 0, tonumber(old[5]) or 0
-- The loops below would keep the server busy for ever. At most 1,000 lines are kept.
if not (first >= 1 and first <= after and after < math.min(2 ^ 53, first + 2000)) then
  return redis.error_reply('KIT_LAYOUT damaged notes')
end
local fields, gone = {}, {}
local function set(name, value)
  fields[#fields + 1] = name
  fields[#fields + 1] = value
end
if old[1] and old[1] ~= of then
  -- These notes are of an earlier job. New lines replace the first ones.
  for line = math.max(first, #lines + 1), after - 1 do gone[#gone + 1] = string.format('%d', line) end
  if progress == '' then
    gone[#gone + 1] = 'progress'
    gone[#gone + 1] = 'progressAt'
  end
  if checkpoint == '' then gone[#gone + 1] = 'checkpoint' end
  first, after, bytes = 1, 1, 0
end
local sizes = {}
for _, text in ipairs(lines) do
  local line = now .. ' ' .. text
  set(string.format('%d', after), line)
  sizes[after] = #line
  bytes = bytes + #line
  after = after + 1
end
while after - first > maxLines or (bytes > maxBytes and after - first > 1) do
  local field = string.format('%d', first)
  bytes = bytes - (sizes[first] or redis.call('HSTRLEN', notes, field))
  gone[#gone + 1] = field
  first = first + 1
end
set('of', of)
set('writer', string.format('%s %d', takeIdOf(member), number))
set('first', string.format('%d', first))
set('next', string.format('%d', after))
set('bytes', string.format('%d', bytes))
if progress ~= '' then
  set('progress', progress)
  set('progressAt', now)
end
if checkpoint ~= '' then set('checkpoint', checkpoint) end
redis.call('HSET', notes, unpack(fields))
if #gone > 0 then redis.call('HDEL', notes, unpack(gone)) end
redis.call('PEXPIRE', notes, keepMs)
return 1
