-- undo.lua - releases the place of a cancelled wait, if no call came after it.
--
-- KEYS[1]  rate    string  the state of the key
-- KEYS[2]  all     string  the state of the shared limits
-- ARGV[n]  states  string  the key's state before the wait, and after it, and the same of the shared limits. A state without `,` has no limits,
--                          and is not stored
--
-- Reply     1  released
--           0  another call came later, so the place stays reserved
local rate = KEYS[1]
local all = KEYS[2]
local states = ARGV

local before, after, allBefore, allAfter = unpack(states)
local function isStored(text) return string.find(text, ',', 1, true) end
local function isLast(key, text) return not isStored(text) or redis.call('GET', key) == text end

if not (isLast(rate, after) and isLast(all, allAfter)) then return 0 end
if isStored(after) then redis.call('SET', rate, before, 'KEEPTTL') end
if isStored(allAfter) then redis.call('SET', all, allBefore, 'KEEPTTL') end
return 1
