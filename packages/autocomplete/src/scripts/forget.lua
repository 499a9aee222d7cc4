-- forget.lua - removes, blocks or unblocks a contact.
--
-- KEYS[1]  book      hash     layout, version, ops
-- KEYS[2]  contacts  zset     id to its score
-- KEYS[3]  cards     hash     id to `text [NUL payload]`
-- KEYS[4]  blocked   zset     id to server ms
-- ARGV[1]  op        string   operation id: sent again, nothing changes
-- ARGV[2]  action    string   `remove`, `block` or `unblock`
-- ARGV[3]  id        string   the contact
-- ARGV[4]  max       integer  how many may be blocked; the oldest block ends first
-- ARGV[5]  keepMs    integer  how long the book lives after this, milliseconds; 0: for ever
--
-- Reply     {1, version}      done, now or by an earlier call
--           {0, version}      it was so before; nothing changed
--           error ERR         the operation id is that of another change; nothing changed
--           error KIT_LAYOUT  written by a newer version; nothing changed
local book = KEYS[1]
local contacts = KEYS[2]
local cards = KEYS[3]
local blocked = KEYS[4]
local op = ARGV[1]
local action = ARGV[2]
local id = ARGV[3]
local max = tonumber(ARGV[4])
local keepMs = tonumber(ARGV[5])

-- Libraries

local state = openBook(book, contacts, cards, blocked)
if not state then return redis.error_reply(layoutError) end
local isDone = state.isDone(op, action, id)
if isDone == nil then return redis.error_reply(opError) end
if isDone then return { 1, state.version } end
local isContact = redis.call('ZSCORE', contacts, id)
local isBlocked = redis.call('ZSCORE', blocked, id)
allowWrites(contacts)
if action == 'block' then redis.call('ZADD', blocked, string.format('%.0f', state.micros / 1000), id) end
local hasChanged = isBlocked
if action ~= 'unblock' then hasChanged = isContact or action == 'block' and not isBlocked end
if hasChanged then state.save(keepMs) end
-- Comes last: it may empty a key, and while the slot moves to another node, a script fails at a key that is gone.
if action == 'unblock' then
  redis.call('ZREM', blocked, id)
else
  redis.call('ZREM', contacts, id)
  redis.call('HDEL', cards, id)
end
if action == 'block' then redis.call('ZREMRANGEBYRANK', blocked, 0, -max - 1) end
return { hasChanged and 1 or 0, state.version }
