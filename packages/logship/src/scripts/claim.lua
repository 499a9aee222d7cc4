-- claim.lua - a worker takes a file of a job, if no other worker has its content.
--
-- KEYS[1]   job           hash   the record of the job
-- KEYS[2]   progress      hash   `<file>:<fact>` of each file, `<content>:<fact>` of each content
-- KEYS[3]   claims        zset   content to the ms at which its worker's lease ends
-- ARGV[1]  file      string   device and inode
-- ARGV[2]  seen      string   its prefix, as recorded when this worker looked; empty: no record
-- ARGV[3]  prefix    string   length and hash of its beginning, and what is known of the counted part: empty if nothing is counted
-- ARGV[4]  likeness  integer  1: it has the text of `seen`; 0: `seen` has no counted text, or another end; -1: another beginning
-- ARGV[5]  name      string   its path within the directory
-- ARGV[6]  stamp     string   its size and times
-- ARGV[7]  leaseMs   integer  life of the claim, milliseconds
-- ARGV[8]  op        string   id of this claim: sent again it gives the same
-- ARGV[9]  others    string   contents that begin like this file, and are not its own
-- ARGV[10] content   string   the one that it is, as far as that was counted; empty: not known
-- ARGV[11] position  string   of that content, when it was compared
-- ARGV[12] from      string   the same position, in this file; empty: all of the file is counted
-- ARGV[n]  beginning string   each beginning of the file, of whole lines
--
-- Reply     {1, fence, seq, position, content, former, formerPosition, formerStamp, named}  this worker has it; `former`: the content that the file
--           had before, in each claim until this content is done; `named`: the one that a file of the same name and first line had before
--           {0, msLeft}  another worker has it for so long; 0: it is done with this stamp, or its record has changed since this worker read it
--           {2, others, {content, position, file, state, msLeft, name, isLike}, …}  compare these contents first; `file`: the one that had the content
--           last; `isLike`: it has the longest beginning, or the first KiB of a file with less than 4 KiB
--           error KIT_LAYOUT  written by a newer version
local job = KEYS[1]
local progress = KEYS[2]
local claims = KEYS[3]
local file = ARGV[1]
local seen = ARGV[2]
local prefix = ARGV[3]
local likeness = tonumber(ARGV[4])
local name = ARGV[5]
local stamp = ARGV[6]
local leaseMs = tonumber(ARGV[7])
local op = ARGV[8]
local others = ARGV[9]
local content = ARGV[10]
local position = ARGV[11]
local from = ARGV[12]
local beginning = { unpack(ARGV, 13) }

-- Libraries

--- Contents whose facts one command reads.
local mostAsked = 1000
local layout = redis.call('HGET', job, 'layout')
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT it was written by a newer version') end
local isSame, isReplaced = likeness == 1, likeness == -1
local own = redis.call('HMGET', progress, file .. ':prefix', file .. ':content', file .. ':stamp', 'name ' .. name)
local now = readClock()
local function recordOf(id)
  return redis.call('HMGET', progress, id .. ':seq', id .. ':position', id .. ':fence', id .. ':op', id .. ':file', id .. ':state')
end
local function leftOf(id)
  return math.max(0, tonumber(redis.call('ZSCORE', claims, id) or '0') - now)
end
local function claimed(id, record, named)
  local former, formerStamp = string.match(redis.call('HGET', progress, id .. ':former') or ' ', '^(%S*) (.*)$')
  local formerPosition = former ~= '' and redis.call('HGET', progress, former .. ':position') or ''
  return { 1, record[3], record[1], record[2], id, former, formerPosition, formerStamp, named or '' }
end
local near
for i, start in ipairs(beginning) do
  if string.find(start, '^1024%-') then near = 'near ' .. start end
end
local id = own[2] or file
local record = recordOf(id)
if record[4] == op then return claimed(id, record) end
if (own[1] or '') ~= seen or (isSame and own[3] == stamp) then return { 0, 0 } end
if content ~= '' then
  id, record = content, recordOf(content)
  if record[2] ~= position then return { 0, 0 } end
elseif not isSame or (record[5] or file) ~= file then
  local ids, likes, starts = {}, {}, {}
  local function compare(other, isLike)
    if likes[other] ~= nil then return end
    ids[#ids + 1], likes[other] = other, isLike
  end
  if isSame then compare(id, false) end
  for i, start in ipairs(beginning) do starts[i] = 'content ' .. start end
  if near then starts[#starts + 1] = near end
  -- If the file has less than 4 KiB, a longer content with its first KiB may have all of it.
  local isShort = near and not string.find(beginning[1], '^4096%-')
  for i, all in ipairs(#starts > 0 and redis.call('HMGET', progress, unpack(starts)) or {}) do
    local isNear = starts[i] == near
    local _, count = string.gsub(all or '', '[^\n]+', '')
    for other in string.gmatch(isNear and count > mostNear and '' or all or '', '[^\n]+') do
      compare(other, i == 1 or (isShort and isNear))
    end
  end
  local listed = table.concat(ids, '\n')
  local reply = { 2, listed }
  for first = 1, listed ~= others and #ids or 0, mostAsked do
    local some = { unpack(ids, first, math.min(first + mostAsked - 1, #ids)) }
    local fields = {}
    for _, other in ipairs(some) do
      for _, fact in ipairs({ ':position', ':file', ':state', ':name' }) do fields[#fields + 1] = other .. fact end
    end
    local facts = redis.call('HMGET', progress, unpack(fields))
    for i, other in ipairs(some) do
      local at, last, state, known = unpack(facts, 4 * i - 3, 4 * i)
      local left = state == 'done' and 0 or leftOf(other)
      reply[#reply + 1] = { other, at, last or other, state, left, known, likes[other] and 1 or 0 }
    end
  end
  if #reply > 2 then return reply end
end
if from ~= '' or content == '' then
  -- The content that the file had before stays known: another file may have it now.
  -- A position is never reset, and what was there and is replaced keeps its record.
  local isCounted = record[2] and string.sub(record[2], 1, 2) ~= '0:'
  local isAnother = content == '' and not isSame and record[2] and (isCounted or isReplaced or (record[5] or file) ~= file)
  local left = leftOf(id)
  if left > 0 and not isAnother then return { 0, left } end
  redis.call('HSET', job, 'layout', 1)
  if record[6] == 'done' then redis.call('HDEL', progress, id .. ':former') end
  record[3] = nextFence(job)
  if content ~= '' then
    record[2] = from
  elseif not isSame then
    if isAnother then
      local former = id
      id = file .. '.' .. record[3]
      redis.call('HSET', progress, id .. ':former', former .. ' ' .. own[3])
    end
    record[1], record[2] = '0', '0:0:0:0'
    redis.call('HSET', progress, id .. ':lines', 0)
  end
  redis.call('HSET', progress, id .. ':seq', record[1], id .. ':position', record[2], id .. ':fence', record[3], id .. ':op', op,
    id .. ':file', file, id .. ':name', name, id .. ':state', 'open')
  redis.call('ZADD', claims, now + leaseMs, id)
  -- It is not done, whatever the stamp.
  stamp = stamp .. ' open'
end
local named, firstLine = string.match(own[4] or '', '^(%S+) (.*)$')
if content ~= '' or isSame or named == id or firstLine ~= beginning[#beginning] then named = '' end
redis.call('HSET', progress, file .. ':prefix', prefix, file .. ':content', id, file .. ':stamp', stamp,
  'name ' .. name, id .. ' ' .. (beginning[#beginning] or ''))
if isSame and startOf(seen) ~= startOf(prefix) then unlistContent(progress, startOf(seen), id) end
if string.sub(prefix, 1, 2) ~= '0-' then listContent(progress, startOf(prefix), id) end
-- A content whose longest beginning is the first KiB is listed above.
if near and near ~= 'near ' .. beginning[1] then listNear(progress, near, id) end
if from == '' and content ~= '' then return { 0, 0 } end
return claimed(id, record, named)
