-- visit.lua - record a page view: extend the session, remember the item, count the view.
--
-- KEYS[1]  session  hash  user, csrf, endsAt, notice
-- KEYS[2]  recent   list  items this session looked at, newest first, each once
-- KEYS[3]  views    zset  views of each item
-- ARGV[1]  itemId       string   the item looked at, empty for none
-- ARGV[2]  idleMs       integer  life of a session without a visit
-- ARGV[3]  recentKept   integer  items remembered
-- ARGV[4]  viewsKept    integer  items counted; those with the fewest views are dropped
-- ARGV[5]  viewsLifeMs  integer  life of the counts after the last view
--
-- Reply   {0}                                     no such session, or it has ended
--         {1, user, csrf, notice, views, recent}  the last form left the notice, which is returned once
local session = KEYS[1]
local recent = KEYS[2]
local views = KEYS[3]
local itemId = ARGV[1]
local idleMs = tonumber(ARGV[2])
local recentKept = tonumber(ARGV[3])
local viewsKept = tonumber(ARGV[4])
local viewsLifeMs = ARGV[5]

local now = redis.call("TIME")
local nowMs = now[1] * 1000 + math.floor(now[2] / 1000)
local known = redis.call("HMGET", session, "user", "csrf", "endsAt", "notice")
if not known[2] or tonumber(known[3]) <= nowMs then
  return { 0 }
end
local count = redis.call("ZSCORE", views, itemId) or "0"
redis.call("LLEN", recent)

local lifeMs = string.format("%.0f", math.min(idleMs, tonumber(known[3]) - nowMs))
redis.call("PEXPIRE", session, lifeMs)
if known[4] then
  redis.call("HDEL", session, "notice")
end
if itemId ~= "" then
  local wasThere = false
  for _, one in ipairs(redis.call("LRANGE", recent, 0, -1)) do wasThere = wasThere or one == itemId end
  -- Added first: while its slot moves to another node, a script fails at a key that it has emptied.
  redis.call("LPUSH", recent, itemId)
  if wasThere then redis.call("LREM", recent, -1, itemId) end
  redis.call("LTRIM", recent, 0, recentKept - 1)
  count = redis.call("ZINCRBY", views, 1, itemId)
  redis.call("ZREMRANGEBYRANK", views, 0, -viewsKept - 1)
  redis.call("PEXPIRE", views, viewsLifeMs)
end
redis.call("PEXPIRE", recent, lifeMs)
return { 1, known[1], known[2], known[4] or "", count, redis.call("LRANGE", recent, 0, -1) }
