-- check.lua - decides a call and reports the use of the limits; changes nothing.
--
-- KEYS[1]  limits    string   limits that replace the caller's: `1 changedAt text`
-- KEYS[2]  all       string   the state of the shared limits
-- KEYS[3]  rate      string   the state of the key
-- ARGV[1]  settings  string   the caller's limits: `name,kind,count,perMs,burst,shared …`
-- ARGV[2]  tokens    integer  how many tokens the call would use
--
-- Reply     {limits, row}     the stored limits and the row, as in `take.lua`
--           error KIT_LAYOUT  written by a newer version, or damaged
local limits = KEYS[1]
local all = KEYS[2]
local rate = KEYS[3]
local settings = ARGV[1]
local tokens = tonumber(ARGV[2])

-- Libraries

local micros = readMicros()
local rules, stored = readLimits(redis.call('GET', limits), settings)
if not rules then return redis.error_reply(layoutError) end
local shared = openState(rules.hasShared and redis.call('GET', all) or nil, micros, rules, true)
local state = openState(redis.call('GET', rate), micros, rules, false)
if not (shared and state) then return redis.error_reply(layoutError) end
local delay, last, left, full, canFit = measure(rules, state, shared, tokens)
local code = not canFit and -1 or delay > 0 and 0 or 1
return { stored, { code, left, toMs(full), toMs(delay), last } }
