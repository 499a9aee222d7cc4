-- fetch.lua - a contact book, if it has changed.
--
-- KEYS[1]  book      hash    layout, version, ops
-- KEYS[2]  contacts  zset    id to its score
-- KEYS[3]  cards     hash    id to `text [NUL payload]`
-- KEYS[4]  blocked   zset    id to server ms
-- ARGV[1]  version   string  what the caller has; `-`: nothing
--
-- Reply     {version}         the caller has it
--           {version, blocked, id, …, id, score, card, …}  how many are blocked, and their ids; then the contacts, the best first
--           error KIT_LAYOUT  written by a newer version
local book = KEYS[1]
local contacts = KEYS[2]
local cards = KEYS[3]
local blocked = KEYS[4]
local version = ARGV[1]

local layout, stored = unpack(redis.call('HMGET', book, 'layout', 'version'))
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT a newer version wrote it') end
stored = stored or ''
if stored == version then return { stored } end
local ids = redis.call('ZREVRANGE', blocked, 0, -1)
local reply = { stored, #ids, unpack(ids) }
local ranked = redis.call('ZREVRANGE', contacts, 0, -1, 'WITHSCORES')
for i = 1, #ranked, 2 do
  reply[#reply + 1] = ranked[i]
  reply[#reply + 1] = ranked[i + 1]
  reply[#reply + 1] = redis.call('HGET', cards, ranked[i]) or ranked[i]
end
return reply
