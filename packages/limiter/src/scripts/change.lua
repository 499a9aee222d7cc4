-- change.lua - stores limits that replace the callers'.
--
-- KEYS[1]  limits    string   `1 changedAt text`
-- ARGV[1]  settings  string   the new limits: `name,kind,count,perMs,burst,shared …`; empty: the callers' own apply again
-- ARGV[2]  askedAt   integer  the server's clock at the start of the caller's change, in epoch microseconds; 0: only reply with the clock
--
-- Reply     text              the server's clock, in epoch microseconds
--           late              a change that started later is stored; nothing changed
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local limits = KEYS[1]
local settings = ARGV[1]
local askedAt = tonumber(ARGV[2])

-- Libraries

local micros = readMicros()
if askedAt == 0 then return digits(micros) end
local stored = redis.call('GET', limits)
if not readLimits(stored, settings) then return redis.error_reply(layoutError) end
local changedAt = tonumber(string.match(stored or '1 0 ', '^%d+ (%d+)'))
-- A change in the future shows that the server's clock was set back.
if askedAt < changedAt and changedAt <= micros then return 'late' end
local text = '1 ' .. digits(askedAt) .. ' ' .. settings
if settings == '' then
  -- Kept for a day, so that a late repeat of an older change is refused.
  redis.call('SET', limits, text, 'PX', 86400000)
else
  redis.call('SET', limits, text)
end
return digits(micros)
