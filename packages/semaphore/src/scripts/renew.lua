-- renew.lua - extends permits, each only if it has not ended. Never shortens one: this may be a
-- late copy.
--
-- KEYS[n]  permits  zset    permit record to the instant at which its permit ends, in epoch milliseconds
-- ARGV[n]  terms    string  `termMs permitRecord` for each permit, with its new length in milliseconds; 0: it is only
--                           looked up
--
-- Reply     {now, state, …}, a state for each permit:
--            1  extended; or it lasts longer already; or it exists
--            0  there is no longer such a permit
--            3  the key holds something else
local permits = KEYS
local terms = ARGV

-- Libraries

return extendEach(permits, terms)
