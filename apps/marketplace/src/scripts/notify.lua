-- notify.lua - leave a notice for the next page of a session, if the session exists.
--
-- KEYS[1]  session  hash    user, csrf, endsAt, notice
-- ARGV[1]  notice   string  the text
--
-- Reply    1  stored
--          0  no such session
local session = KEYS[1]
local notice = ARGV[1]

if redis.call("HEXISTS", session, "csrf") == 0 then
  return 0
end
redis.call("HSET", session, "notice", notice)
return 1
