-- renew.lua - extends leases, for reading or for writing, each only if it has not ended. Never shortens one: this may
-- be a late copy.
--
-- KEYS[n]  leases  zset     record `mode|token|holder` to the end of its lease, in epoch milliseconds; mode `r` or `w`
-- ARGV[n]  terms   string   `termMs record` for each lease, which may have the other mode by now, with its new length in
--                           milliseconds; 0: it is only looked up
--
-- Reply     {now, state, …}, a state for each lease:
--            1  extended; or it lasts longer already; or it exists
--            0  there is no such lease any more
--            3  the key holds something else
local leases = KEYS
local terms = ARGV

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = { now }
-- A write without effect: at maxmemory the writes after a write that frees memory are allowed.
redis.pcall('ZREM', leases[1], '')
for i, key in ipairs(leases) do
  local termMs, record = string.match(terms[i], '^(%d+) (.*)$')
  local ms = tonumber(termMs)
  local ending = redis.pcall('ZSCORE', key, record)
  if not ending then
    record = (string.sub(record, 1, 1) == 'r' and 'w' or 'r') .. string.sub(record, 2)
    ending = redis.pcall('ZSCORE', key, record)
  end
  if type(ending) == 'table' then
    reply[i + 1] = 3
  elseif not ending or tonumber(ending) <= now then
    reply[i + 1] = 0
  else
    if ms > 0 and tonumber(ending) < now + ms then
      redis.call('ZADD', key, 'XX', string.format('%.0f', now + ms), record)
    end
    if ms > 0 and redis.call('PTTL', key) < ms + 1000 then redis.call('PEXPIRE', key, 2 * ms + 1000) end
    reply[i + 1] = 1
  end
end
return reply
