-- open-session.lua - open a session; its end is set by the server's clock.
--
-- KEYS[1]  session  hash     user, csrf, endsAt, permit, notice
-- ARGV[1]  user     string   the persona, empty for a visitor without one
-- ARGV[2]  csrf     string   the token of its forms
-- ARGV[3]  lifeMs   integer  longest life
-- ARGV[4]  idleMs   integer  longest life without a visit
-- ARGV[5]  permit   string   its permit of the sessions semaphore, empty for none
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
