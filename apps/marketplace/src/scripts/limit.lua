-- limit.lua - count one form of a session, a persona or an address, and check the limit.
--
-- KEYS[1]  forms     string   forms in the present window
-- ARGV[1]  most      integer  forms allowed in one window
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
