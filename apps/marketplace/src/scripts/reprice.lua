-- reprice.lua - write one line of the price list, unless a later re-pricing has begun.
--
-- KEYS[1]  prices  hash     one field for each category: edition and price; fence (the highest fencing token seen)
-- ARGV[1]  category      string   the line
-- ARGV[2]  line          string   its edition and price
-- ARGV[3]  fencingToken  integer  fencing token of the caller's lease
-- ARGV[4]  lifeMs        integer  life of the list
--
-- Reply    1  written
--          0  the list has seen a newer token: nothing was written
local prices = KEYS[1]
local category = ARGV[1]
local line = ARGV[2]
local fencingToken = ARGV[3]
local lifeMs = ARGV[4]

local fence = redis.call("HGET", prices, "fence") or "0"
if #fence > #fencingToken or (#fence == #fencingToken and fence > fencingToken) then
  return 0
end
redis.call("HSET", prices, "fence", fencingToken, category, line)
redis.call("PEXPIRE", prices, lifeMs)
return 1
