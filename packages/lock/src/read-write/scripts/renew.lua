-- renew.lua - extends leases, for reading or for writing, each only if it has not ended. Never shortens one: this may
-- be a late copy.
--
-- KEYS[n]  leases  zset     record `mode|token|holder` to the end of its lease, in epoch milliseconds; mode `r` or `w`
-- ARGV[n]  terms   string   `termMs record` for each lease, which may have the other mode by now, with its new length in
--                           milliseconds; 0: it is only looked up
--
-- Reply     {now, state, …}, a state for each lease:
--            1  extended; or it lasts longer already; or it exists
--            0  there is no longer such a lease
--            3  the key holds something else
local leases = KEYS
local terms = ARGV

-- Libraries

return extendEach(leases, terms, function(record)
  return (string.sub(record, 1, 1) == 'r' and 'w' or 'r') .. string.sub(record, 2)
end)
