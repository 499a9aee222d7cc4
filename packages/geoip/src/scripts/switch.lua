-- switch.lua - lets another version serve, and notifies the readers. From here on it serves; its shards still expire.
--
-- KEYS[1]  current      hash     layout, current, previous, epoch, isSealed, keepMs, at
-- KEYS[2]  incoming     hash     the record of the version that is to serve
-- KEYS[3]  before       hash     the record of `previous`, which nothing refers to afterwards
-- ARGV[1]  version      string   its id; also the operation id: a repetition changes nothing
-- ARGV[2]  expected     string   the version that serves now; empty: none
-- ARGV[3]  previous     string   the version that served before that one; empty: none
-- ARGV[4]  keepMs       integer  how long the version before is kept, milliseconds
-- ARGV[5]  mayAbandon   integer  1: also where the version that serves now was not sealed
-- ARGV[6]  channel      string   where it is published
--
-- Reply     1  it serves, from now on or before
--           0  another version serves than expected, or the one that does is not sealed; nothing was changed
--           2  the record of the version is gone; nothing was changed
--           error KIT_LAYOUT  written by a newer version; nothing was changed
local current = KEYS[1]
local incoming = KEYS[2]
local before = KEYS[3]
local version = ARGV[1]
local expected = ARGV[2]
local previous = ARGV[3]
local keepMs = ARGV[4]
local mayAbandon = ARGV[5]
local channel = ARGV[6]

local found = redis.call('HMGET', current, 'layout', 'current', 'isSealed', 'epoch', 'previous')
if found[1] and found[1] ~= '1' then
  return redis.error_reply('KIT_LAYOUT the database was written by a newer version')
end
if found[2] == version then return 1 end
if (found[2] or '') ~= expected or (found[5] or '') ~= previous then return 0 end
if found[3] == '0' and mayAbandon ~= '1' then return 0 end
if not redis.call('HGET', incoming, 'manifest') then return 2 end
local epoch = string.format('%.0f', tonumber(found[4] or 0) + 1)
redis.call('HSET', current, 'layout', '1', 'current', version, 'previous', expected, 'epoch', epoch)
redis.call('HSET', current, 'isSealed', '0', 'keepMs', keepMs, 'at', redis.call('TIME')[1])
redis.call('PERSIST', incoming)
-- Sealing lets it expire, and a version that is abandoned is never sealed.
if found[3] == '0' and previous ~= version then redis.call('PEXPIRE', before, keepMs) end
-- A writer without the permission to publish may still switch: readers find the new version at their next check.
redis.pcall('PUBLISH', channel, version)
return 1
