-- list.lua - put an item up for sale, or change the price of its listing.
--
-- KEYS[1]  item       hash    category, revision, fence (the highest fencing token seen)
-- KEYS[2]  listing    hash    price, seller; exists while the item is for sale
-- KEYS[3]  inventory  set     items of the seller
-- KEYS[4]  market     zset    every listed item, by listing number
-- KEYS[5]  shelf      zset    the same for the category of the item
-- KEYS[6]  totals     hash    money and items at the opening, listings and sales since
-- KEYS[7]  receipt    string  exists if this request listed this item at this price before
-- ARGV[1]  itemId         string   the item
-- ARGV[2]  sellerId       string   the seller
-- ARGV[3]  price          integer  the price asked, pence
-- ARGV[4]  revision       integer  the revision of the item the seller saw
-- ARGV[5]  fencingToken   integer  fencing token of the caller's lease
-- ARGV[6]  receiptLifeMs  integer  how long the first result is kept for repeats
-- ARGV[7]  marketLifeMs   integer  life of the whole market, 0 without limit
--
-- Reply   {1, price}  listed
--         {2, price}  this request listed it before: its first result
--         {3, price}  was listed by the same seller: the price is changed
--         {4}         not the seller's item
--         {5}         the item changed hands or price since the seller looked
--         {6, fence}  the item has seen this newer token: the caller's is stale
local item = KEYS[1]
local listing = KEYS[2]
local inventory = KEYS[3]
local market = KEYS[4]
local shelf = KEYS[5]
local totals = KEYS[6]
local receipt = KEYS[7]
local itemId = ARGV[1]
local sellerId = ARGV[2]
local price = ARGV[3]
local revision = ARGV[4]
local fencingToken = ARGV[5]
local receiptLifeMs = ARGV[6]
local marketLifeMs = ARGV[7]

if redis.call("GET", receipt) then
  return { 2, price }
end

local known = redis.call("HMGET", item, "revision", "fence")
if not known[1] then
  return { 4 }
end
local fence = known[2] or "0"
if #fence > #fencingToken or (#fence == #fencingToken and fence > fencingToken) then
  return { 6, fence }
end
if fence ~= fencingToken then
  redis.call("HSET", item, "fence", fencingToken)
end

local mine = redis.call("SISMEMBER", inventory, itemId) == 1
if not mine and redis.call("HGET", listing, "seller") ~= sellerId then
  return { 4 }
end
if known[1] ~= revision then
  return { 5 }
end

redis.call("ZSCORE", market, itemId)
redis.call("ZSCORE", shelf, itemId)
redis.call("HGET", totals, "listings")

redis.call("HINCRBY", item, "revision", 1)
redis.call("SET", receipt, "listed", "PX", receiptLifeMs)
if not mine then
  redis.call("HSET", listing, "price", price)
  return { 3, price }
end
local number = redis.call("HINCRBY", totals, "listings", 1)
redis.call("SREM", inventory, itemId)
redis.call("HSET", listing, "price", price, "seller", sellerId)
redis.call("ZADD", market, number, itemId)
redis.call("ZADD", shelf, number, itemId)
if marketLifeMs ~= "0" then
  redis.call("PEXPIRE", listing, marketLifeMs)
  redis.call("PEXPIRE", market, marketLifeMs)
  redis.call("PEXPIRE", shelf, marketLifeMs)
end
return { 1, price }
