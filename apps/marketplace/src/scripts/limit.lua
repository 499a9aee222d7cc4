-- limit.lua - count one form of a session, a persona or an address, and say whether that was one too many.
--
-- KEYS[1]  forms     string   forms in the present window
-- ARGV[1]  most      integer  forms that a window has room for
-- ARGV[2]  windowMs  integer  length of a window
--
-- Reply    1  within the limit
--          0  too many
local forms = KEYS[1]
local most = tonumber(ARGV[1])
local windowMs = ARGV[2]

local count = redis.call("INCR", forms)
if count == 1 then
  redis.call("PEXPIRE", forms, windowMs)
end
if count > most then
  return 0
end
return 1
