-- eviction.lua - returns the eviction policy of the server that has a key. Changes nothing.
--
-- KEYS[1]  key  any  need not exist; on a Cluster it leads the call to its node
--
-- Reply     policy        the server's `maxmemory-policy`; `noeviction` also where its memory has no limit
--           error NOPERM  the user may not run INFO
local key = KEYS[1]

redis.call('TYPE', key)
local info = redis.pcall('INFO', 'memory')
if type(info) == 'table' then return info end
if string.find(info, '\nmaxmemory:0\r') then return 'noeviction' end
return string.match(info, '\nmaxmemory_policy:([%w-]+)') or 'noeviction'
