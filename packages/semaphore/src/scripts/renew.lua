-- renew.lua - extends permits, each only if it has not ended. Never shortens one: this may be a
-- late copy.
--
-- KEYS[n]  permits  zset    permit record to the instant at which its permit ends, in epoch milliseconds
-- ARGV[n]  terms    string  `termMs permitRecord` for each permit, with its new length in milliseconds; 0: it is only
--                           looked up
--
-- Reply     {now, state, …}, a state for each permit:
--            1  extended; or it lasts longer already; or it exists
--            0  there is no such permit any more
--            3  the key holds something else
local permits = KEYS
local terms = ARGV

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = { now }
-- A write without effect: at maxmemory the writes after a write that frees memory are allowed.
redis.pcall('ZREM', permits[1], '')
for i, key in ipairs(permits) do
  local termMs, permitRecord = string.match(terms[i], '^(%d+) (.*)$')
  local ms = tonumber(termMs)
  local ending = redis.pcall('ZSCORE', key, permitRecord)
  if type(ending) == 'table' then
    reply[i + 1] = 3
  elseif not ending or tonumber(ending) <= now then
    reply[i + 1] = 0
  else
    if ms > 0 and tonumber(ending) < now + ms then
      redis.call('ZADD', key, 'XX', string.format('%.0f', now + ms), permitRecord)
    end
    if ms > 0 and redis.call('PTTL', key) < ms + 1000 then redis.call('PEXPIRE', key, 2 * ms + 1000) end
    reply[i + 1] = 1
  end
end
return reply
