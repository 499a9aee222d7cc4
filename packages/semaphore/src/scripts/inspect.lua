-- inspect.lua - the stored state of a semaphore; changes nothing.
--
-- KEYS[1]  permits  zset     permit record to the instant at which it ends, in epoch ms; counts below 0, rows by tenant at 0
-- KEYS[2]  meta     hash     layout and limits
-- KEYS[3]  queue    zset     the waiters: rows `tenant score permitRecord`; suspended: `|aliveUntil permitRecord`
-- KEYS[4]  waiters  hash     permit record to `aliveUntil watched score grantMs inbox`; `#` to the last ticket
-- ARGV[1]  first    integer  how many holders and how many waiters to show
-- ARGV[2]  tenant   string   only this tenant's; empty: all
--
-- Reply     {permits, perTenant, used, waiting, {msLeft, permit record, …}, {permit record, …}, usedByAll}  limits -1: none stored; the
--                             permits that end first, of one tenant among the first ten thousand; and the first waiters,
--                             of all among the first thousand
--           error KIT_LAYOUT  written by a newer version, or damaged
local permits = KEYS[1]
local meta = KEYS[2]
local queue = KEYS[3]
local waiters = KEYS[4]
local first = tonumber(ARGV[1])
local tenant = ARGV[2]
local pageSize = 1000
local mostPages = 10

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local layout, limit, perTenant = unpack(redis.call('HMGET', meta, 'layout', 'permits', 'perTenant'))
local extra, own = unpack(redis.call('ZMSCORE', permits, '#', '#' .. tenant))
local function isDamaged(text) return text and not (#text < 16 and string.match(text, '^%d+$')) end
if (layout and layout ~= '1') or isDamaged(limit) or isDamaged(perTenant) then
  return redis.error_reply('KIT_LAYOUT the semaphore was written by a newer version, or is damaged')
end

local function isShown(permitRecord)
  return tenant == '' or string.match(permitRecord, '^[^|]*|%d+|([^|]*)|') == tenant
end

local usedByAll = redis.call('ZCOUNT', permits, '(0', '+inf') - (extra or 0)
local isCounted = perTenant and tenant ~= ''
local used = isCounted and -(own or 0) or 0
-- Ended permits stay until calls drop them, some at a time. If there are more than this call reads, the sums may be too high.
local hasSums = extra or isCounted
usedByAll = usedByAll - redis.call('ZCOUNT', permits, '(0', now)
local ended = hasSums and redis.call('ZRANGEBYSCORE', permits, '(0', now, 'LIMIT', 0, mostPages * pageSize) or {}
for _, permitRecord in ipairs(ended) do
  local weight = string.match(permitRecord, '^[^|]*|(%d+)|') or 1
  usedByAll = usedByAll - weight + 1
  if isCounted and isShown(permitRecord) then used = used - weight end
end

local holders, left = {}, tenant ~= '' and isCounted and used or math.huge
local start = '(' .. string.format('%.0f', now)
local size = tenant == '' and first or pageSize
for page = 0, mostPages - 1 do
  local living = redis.call('ZRANGEBYSCORE', permits, start, '+inf', 'WITHSCORES', 'LIMIT', page * size, size)
  for i = 1, #living, 2 do
    if isShown(living[i]) then
      local weight = tonumber(string.match(living[i], '^[^|]*|(%d+)|') or 1)
      if not isCounted then used = used + weight end
      if left > 0 and #holders < 2 * first then
        left = left - weight
        holders[#holders + 1] = tonumber(living[i + 1]) - now
        holders[#holders + 1] = living[i]
      end
    end
  end
  local isAll = #holders == 2 * first and (isCounted or tenant == '')
  if left <= 0 or isAll or #living < 2 * size then break end
end
if tenant == '' then used = usedByAll end

local waiting = math.max(0, redis.call('HLEN', waiters) - 1)
local found
if tenant == '' then
  found = redis.call('ZRANGE', queue, 0, pageSize - 1)
else
  local from, to = '[' .. tenant .. ' ', '(' .. tenant .. '!'
  found = redis.call('ZRANGEBYLEX', queue, from, to, 'LIMIT', 0, first)
  waiting = redis.call('ZLEXCOUNT', queue, from, to)
  for _, row in ipairs(redis.call('ZRANGEBYLEX', queue, '[|', '+', 'LIMIT', 0, pageSize)) do
    if isShown(string.match(row, '^|%d+ (.*)$') or '') then waiting = waiting + 1 end
  end
end
local rows = {}
for _, row in ipairs(found) do
  local score, permitRecord = string.match(row, '^[^| ]* (%d+) (.*)$')
  if score then rows[#rows + 1] = { score = score, permitRecord = permitRecord } end
end
table.sort(rows, function(a, b)
  return a.score < b.score
end)
local queue = {}
for i = 1, math.min(first, #rows) do
  queue[i] = rows[i].permitRecord
end
return { tonumber(limit or -1), tonumber(perTenant or -1), used, waiting, holders, queue, usedByAll }
