-- undo.lua - releases the place of a cancelled wait, if no call came after it.
--
-- KEYS[1]  rate       string  the state of the key
-- KEYS[2]  all        string  the state of the shared limits
-- ARGV[1]  before     string  the key's state before the wait
-- ARGV[2]  after      string  and after it; without `,` it has no limits, and is not stored
-- ARGV[3]  allBefore  string  the state of the shared limits before the wait
-- ARGV[4]  allAfter   string  and after the wait
--
-- Reply     1  released
--           0  another call came later, so the place stays reserved
local rate = KEYS[1]
local all = KEYS[2]
local before = ARGV[1]
local after = ARGV[2]
local allBefore = ARGV[3]
local allAfter = ARGV[4]

-- A state without limits is not stored.
local function isStored(text) return string.find(text, ',', 1, true) end
local function isLast(key, text) return not isStored(text) or redis.call('GET', key) == text end

if not (isLast(rate, after) and isLast(all, allAfter)) then return 0 end
if isStored(after) then redis.call('SET', rate, before, 'KEEPTTL') end
if isStored(allAfter) then redis.call('SET', all, allBefore, 'KEEPTTL') end
return 1
