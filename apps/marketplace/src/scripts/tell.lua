-- tell.lua - leave a word for the next page of a session, if the session still lives.
--
-- KEYS[1]  session  hash    user, csrf, endsAt, notice
-- ARGV[1]  notice   string  what is to be said
--
-- Reply    1  left
--          0  no such session
local session = KEYS[1]
local notice = ARGV[1]

if redis.call("HEXISTS", session, "csrf") == 0 then
  return 0
end
redis.call("HSET", session, "notice", notice)
return 1
