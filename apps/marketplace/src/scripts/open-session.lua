-- open-session.lua - begin a session whose end is an instant of the server.
--
-- KEYS[1]  session  hash     user, csrf, endsAt, permit, notice
-- ARGV[1]  user     string   who it is, empty for a visitor without a persona
-- ARGV[2]  csrf     string   the token its forms carry
-- ARGV[3]  lifeMs   integer  how long it lasts at most
-- ARGV[4]  idleMs   integer  how long it lasts unused
-- ARGV[5]  permit   string   its permit among the sessions of its user, empty where nobody counts
--
-- Reply    1  open
local session = KEYS[1]
local user = ARGV[1]
local csrf = ARGV[2]
local lifeMs = tonumber(ARGV[3])
local idleMs = tonumber(ARGV[4])
local permit = ARGV[5]

local now = redis.call("TIME")
local endsAt = now[1] * 1000 + math.floor(now[2] / 1000) + lifeMs
redis.call("HSET", session, "user", user, "csrf", csrf, "endsAt", string.format("%.0f", endsAt),
  "permit", permit)
redis.call("PEXPIRE", session, string.format("%.0f", math.min(lifeMs, idleMs)))
return 1
