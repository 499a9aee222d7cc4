-- inspect.lua - what is known of a semaphore; changes nothing.
--
-- KEYS[1]  permits  zset     claim to the instant at which its permit ends, in epoch milliseconds
-- KEYS[2]  meta     hash     layout, limits, and what is counted
-- KEYS[3]  line     zset     the waiters: rows `tenant score claim`; set aside: `|aliveUntil claim`
-- KEYS[4]  waiters  hash     claim to `aliveUntil watched score grantMs inbox`; `#` to the last ticket
-- ARGV[1]  first    integer  how many holders and how many waiters to show
--
-- Reply     {permits, perTenant, used, waiting, {msLeft, claim, …}, {claim, …}}  limits -1: none stored; the permits that
--                             end first, and the first waiters among the first thousand
--           error KIT_LAYOUT  written by a newer version
local permits = KEYS[1]
local meta = KEYS[2]
local line = KEYS[3]
local waiters = KEYS[4]
local first = tonumber(ARGV[1])

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local layout, limit, perTenant, extra = unpack(redis.call('HMGET', meta, 'layout', 'permits', 'perTenant', 'extra'))
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT the semaphore was written by a newer version') end

local used = redis.call('ZCARD', permits)
if used > 0 then used = used + (tonumber(extra or 0) or 0) end
for _, claim in ipairs(redis.call('ZRANGEBYSCORE', permits, '-inf', now)) do
  used = used - (string.match(claim, '^[^|]*|(%d+)|') or 1)
end
local holders = {}
local living = redis.call('ZRANGEBYSCORE', permits, '(' .. string.format('%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, first)
for i = 1, #living, 2 do
  holders[#holders + 1] = tonumber(living[i + 1]) - now
  holders[#holders + 1] = living[i]
end
local rows = {}
for _, row in ipairs(redis.call('ZRANGE', line, 0, 999)) do
  local score, claim = string.match(row, '^[^| ]* (%d+) (.*)$')
  if score then rows[#rows + 1] = { score = score, claim = claim } end
end
table.sort(rows, function(a, b)
  return a.score < b.score
end)
local queue = {}
for i = 1, math.min(first, #rows) do
  queue[i] = rows[i].claim
end
local waiting = math.max(0, redis.call('HLEN', waiters) - 1)
return { tonumber(limit or nil) or -1, tonumber(perTenant or nil) or -1, used, waiting, holders, queue }
