-- renew.lua - pushes leases forward, each only for the holder that owns it.
--
-- KEYS[n]  leases  string   who holds it: `token|holder`
-- ARGV[n]  terms   string   for each lease its owner, then its new time to live in milliseconds
--
-- Reply     {now, state, …}, a state for each lease:
--            1  extended
--            0  nobody holds it
--            2  another holds it
--            3  the key holds something else
local leases = KEYS
local terms = ARGV

local time = redis.call('TIME')
local reply = { tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) }
for i, lease in ipairs(leases) do
  local owner = redis.pcall('GET', lease)
  if owner == terms[2 * i - 1] then
    redis.call('PEXPIRE', lease, terms[2 * i])
    reply[i + 1] = 1
  elseif type(owner) == 'table' then
    reply[i + 1] = 3
  else
    reply[i + 1] = owner and 2 or 0
  end
end
return reply
