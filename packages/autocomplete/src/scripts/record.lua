-- record.lua - one event with a contact.
--
-- KEYS[1]  book        hash     layout, version, ops
-- KEYS[2]  contacts    zset     id to its score: the server ms at which one event would be worth as much
-- KEYS[3]  cards       hash     id to `text [NUL payload]`
-- KEYS[4]  blocked     zset     id to server ms
-- ARGV[1]  op          string   operation id: sent again, nothing changes
-- ARGV[2]  id          string   the contact
-- ARGV[3]  card        string   `text [NUL payload]`; without a text: the stored one, or the id; empty: as it was, or the id
-- ARGV[4]  halfLifeMs  integer  after which an event is worth half; 0: only the last one counts
-- ARGV[5]  max         integer  how many contacts there may be
-- ARGV[6]  keepMs      integer  how long the book lives after this, milliseconds; 0: for ever
--
-- Reply     {1, version}      done, now or by an earlier call
--           {0, version}      it is blocked; nothing changed
--           error ERR         the operation id is that of another change; nothing changed
--           error KIT_LAYOUT  written by a newer version; nothing changed
local book = KEYS[1]
local contacts = KEYS[2]
local cards = KEYS[3]
local blocked = KEYS[4]
local op = ARGV[1]
local id = ARGV[2]
local card = ARGV[3]
local halfLifeMs = tonumber(ARGV[4])
local max = tonumber(ARGV[5])
local keepMs = tonumber(ARGV[6])

-- Libraries

local state = openBook(book, contacts, cards, blocked)
if not state then return redis.error_reply(layoutError) end
local isDone = state.isDone(op, 'record', id, card)
if isDone == nil then return redis.error_reply(opError) end
if isDone then return { 1, state.version } end
if redis.call('ZSCORE', blocked, id) then return { 0, state.version } end

local now = state.micros / 1000
local before = tonumber(redis.call('ZSCORE', contacts, id) or nil)
local score = now
if halfLifeMs > 0 and before then
  score = math.max(before, now) + halfLifeMs * math.log(1 + 2 ^ (-math.abs(before - now) / halfLifeMs)) / math.log(2)
elseif halfLifeMs == 0 then
  -- Two events in one microsecond, a clock that stepped back, or scores of many events: the later one still comes first.
  local top = redis.call('ZREVRANGE', contacts, 0, 1, 'WITHSCORES')
  local best = top[2]
  if top[1] == id then best = top[4] end
  if best then score = math.max(now, tonumber(best) + 0.001) end
end
if string.sub(card, 1, 1) == '\0' then
  card = string.match(redis.call('HGET', cards, id) or id, '^[^%z]*') .. card
end
if card ~= '' then
  redis.call('HSET', cards, id, card)
else
  redis.call('HSETNX', cards, id, id)
end
redis.call('ZADD', contacts, string.format('%.17g', score), id)
-- The contact that was just used stays, however often the others were.
local lowest = redis.call('ZRANGE', contacts, 0, math.max(0, redis.call('ZCARD', contacts) - max))
local excess = redis.call('ZCARD', contacts) - max
for _, one in ipairs(lowest) do
  if excess > 0 and one ~= id then
    excess = excess - 1
    redis.call('ZREM', contacts, one)
    redis.call('HDEL', cards, one)
  end
end
return { 1, state.save(keepMs) }
