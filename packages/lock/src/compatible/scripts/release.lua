-- release.lua - removes the key, only for the holder that owns it.
--
-- KEYS[1]  lease  string   the holder's token
-- ARGV[1]  token  string   the caller's
--
-- Reply     1  released
--           0  not held by this token; nothing changed
local lease = KEYS[1]
local token = ARGV[1]

if redis.call('GET', lease) ~= token then return 0 end
redis.call('DEL', lease)
return 1
