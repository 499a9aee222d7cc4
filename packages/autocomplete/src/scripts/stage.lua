-- stage.lua - starts a rebuild.
--
-- KEYS[1]  index         hash  layout, settings, those of a rebuild and its token
-- KEYS[2]  live          set   ids that were written while a rebuild ran
-- KEYS[3]  stagedRows    zset  rows of a rebuild
-- KEYS[4]  stagedRanked  zset  its ranked rows
-- KEYS[5]  stagedItems   hash  its items; the empty id has the token of the rebuild
-- KEYS[6]  absent        hash  never exists
-- ARGV[1]  token     string   of the rebuild; sent again, nothing changes
-- ARGV[2]  settings  string   by which it will fold
-- ARGV[3]  keepMs    integer  how long staged data lives after this, milliseconds
--
-- Reply     1  done; another rebuild that was under way is over
--           error KIT_LAYOUT  written by a newer version; nothing changed
local index = KEYS[1]
local live = KEYS[2]
local stagedRows = KEYS[3]
local stagedRanked = KEYS[4]
local stagedItems = KEYS[5]
local absent = KEYS[6]
local token = ARGV[1]
local settings = ARGV[2]
local keepMs = tonumber(ARGV[3])

local layout, staging = unpack(redis.call('HMGET', index, 'layout', 'staging'))
if layout and layout ~= '1' then return redis.error_reply('KIT_LAYOUT a newer version wrote it') end
if staging == token then return 1 end
-- While the slot moves to another node, a script that empties a key and then fills it would end between the two. This key never
-- exists, so a server refuses the script as a whole there.
redis.call('HLEN', absent)
redis.call('UNLINK', stagedRows, stagedRanked, stagedItems, live)
-- The rebuild makes an index that lost its head anew, whatever the other keys hold.
if not layout then redis.call('HSET', index, 'layout', '1', 'settings', settings) end
redis.call('HSET', index, 'staging', token, 'staged', settings, 'batches', 0)
redis.call('HSET', stagedItems, '', token)
redis.call('PEXPIRE', stagedItems, keepMs)
return 1
