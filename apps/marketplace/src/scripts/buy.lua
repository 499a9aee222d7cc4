-- buy.lua - sell one listed item to one buyer: all of it, or nothing and the reason.
--
-- KEYS[1]   item       hash    category, revision, fence (the highest fencing token seen)
-- KEYS[2]   listing    hash    price, seller; exists while the item is for sale
-- KEYS[3]   buyer      hash    name, funds of the buyer
-- KEYS[4]   seller     hash    name, funds of the seller
-- KEYS[5]   inventory  set     items of the buyer
-- KEYS[6]   market     zset    every listed item, by listing number
-- KEYS[7]   shelf      zset    the same for the category of the item
-- KEYS[8]   ledger     stream  one entry per sale
-- KEYS[9]   totals     hash    money and items at the opening, listings and sales since
-- KEYS[10]  receipt    string  seller and fence of the first result of this request for this item and price
-- KEYS[11]  offers     hash    buyer: price and revision, of offers below the asked price
-- ARGV[1]   itemId         string   the item
-- ARGV[2]   buyerId        string   the buyer
-- ARGV[3]   sellerId       string   the seller whose hash is KEYS[4]
-- ARGV[4]   price          integer  the price the buyer saw, pence
-- ARGV[5]   revision       integer  the revision of the item the buyer saw
-- ARGV[6]   fencingToken   integer  fencing token of the caller's lease
-- ARGV[7]   request        string   id of the request
-- ARGV[8]   receiptLifeMs  integer  how long the first result is kept for repeats
-- ARGV[9]   marketLifeMs   integer  life of the whole market, 0 without limit
-- ARGV[10]  ledgerLength   integer  sales kept, approximately
-- ARGV[11]  isOffer        integer  1: the price is the buyer's offer, which must still stand; 0: it is the asked price
--
-- Reply   {1, price, seller, fence}  sold
--         {2, price, seller, fence}  this request was sold before: its first result
--         {3}                        not for sale (any more)
--         {4, price}                 another price than the buyer saw
--         {5}                        the listing or the item has changed since the buyer looked, or the offer does not
--                                    stand
--         {6, funds}                 not enough money
--         {7, fence}                 the item has seen this newer token: the caller's is stale
--         {8}                        the buyer's own item
--
-- Why     Everything that the buyer saw is checked again: a caller whose lease has expired sends old values. Money and
--         tokens are compared as text or added by the server, so nothing is lost to rounding. A refused sale records
--         its token as well, since its holder has read the item and decided by it. An optimistic sale has no token
--         and leaves the fence alone. After it, the revision stops an older holder.
local item = KEYS[1]
local listing = KEYS[2]
local buyer = KEYS[3]
local seller = KEYS[4]
local inventory = KEYS[5]
local market = KEYS[6]
local shelf = KEYS[7]
local ledger = KEYS[8]
local totals = KEYS[9]
local receipt = KEYS[10]
local offers = KEYS[11]
local itemId = ARGV[1]
local buyerId = ARGV[2]
local sellerId = ARGV[3]
local price = ARGV[4]
local revision = ARGV[5]
local fencingToken = ARGV[6]
local request = ARGV[7]
local receiptLifeMs = ARGV[8]
local marketLifeMs = ARGV[9]
local ledgerLength = ARGV[10]
local isOffer = ARGV[11] == "1"

local first = redis.call("GET", receipt)
if first then
  local from, under = string.match(first, "^(%S+) ?(%d*)$")
  return { 2, price, from, under }
end

local known = redis.call("HMGET", item, "revision", "fence")
if not known[1] then
  return { 3 }
end
local fence = known[2] or "0"
if #fence > #fencingToken or (#fence == #fencingToken and fence > fencingToken) then
  return { 7, fence }
end
if fence ~= fencingToken then
  redis.call("HSET", item, "fence", fencingToken)
end

local asked = redis.call("HMGET", listing, "price", "seller")
if not asked[1] then
  return { 3 }
end
if asked[2] == buyerId then
  return { 8 }
end
if isOffer and redis.call("HGET", offers, buyerId) ~= price .. " " .. revision then
  return { 5 }
end
if not isOffer and asked[1] ~= price then
  return { 4, asked[1] }
end
if known[1] ~= revision or asked[2] ~= sellerId then
  return { 5 }
end
local funds = redis.call("HGET", buyer, "funds") or "0"
if tonumber(funds) < tonumber(price) then
  return { 6, funds }
end

-- A script does not roll back. Each key is read before the first write, so that a wrong type fails there.
if not redis.call("HGET", seller, "funds") or redis.call("SISMEMBER", inventory, itemId) == 1 then
  return redis.error_reply("SHOP_BROKEN seller unknown, or item in two places")
end
redis.call("ZSCORE", market, itemId)
redis.call("ZSCORE", shelf, itemId)
redis.call("XLEN", ledger)
redis.call("HGET", totals, "sales")

redis.call("DEL", listing)
redis.call("ZREM", market, itemId)
redis.call("ZREM", shelf, itemId)
redis.call("SADD", inventory, itemId)
redis.call("HINCRBY", buyer, "funds", "-" .. price)
redis.call("HINCRBY", seller, "funds", price)
redis.call("HINCRBY", item, "revision", 1)
redis.call("HINCRBY", totals, "sales", 1)
redis.call("XADD", ledger, "MAXLEN", "~", ledgerLength, "*", "request", request, "item", itemId, "seller", sellerId,
  "buyer", buyerId, "price", price, "revision", revision, "way", "lock", "fence", fencingToken)
redis.call("SET", receipt, sellerId .. " " .. fencingToken, "PX", receiptLifeMs)
if marketLifeMs ~= "0" then
  redis.call("PEXPIRE", inventory, marketLifeMs)
  redis.call("PEXPIRE", ledger, marketLifeMs)
end
return { 1, price, sellerId, fencingToken }
