-- renew.lua - extends leases, each only for the holder that owns it. Never shortens one: this may be a late copy.
--
-- KEYS[n]  leases  string   who holds it: `token|holder`
-- ARGV[n]  terms   string   `termMs owner` for each lease: its new time to live in milliseconds, and its holder; 0: it is
--                           only looked up
--
-- Reply     {now, state, …}, a state for each lease:
--            1  extended; or it lasts longer already; or it exists
--            0  it is free
--            2  another holds it
--            3  the key holds something else
local leases = KEYS
local terms = ARGV

local time = redis.call('TIME')
local reply = { tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) }
for i, lease in ipairs(leases) do
  local termMs, owner = string.match(terms[i], '^(%d+) (.*)$')
  local found = redis.pcall('GET', lease)
  if found == owner then
    local ms = tonumber(termMs)
    if ms > 0 and redis.call('PTTL', lease) < ms then redis.call('PEXPIRE', lease, termMs) end
    reply[i + 1] = 1
  elseif type(found) == 'table' then
    reply[i + 1] = 3
  else
    reply[i + 1] = found and 2 or 0
  end
end
return reply
