-- inspect.lua - the stored state of a lock; changes nothing.
--
-- KEYS[1]  lease    string   who holds it: `token|holder`
-- KEYS[2]  fence    string   `1:` and the last fencing token, `:` and the call that handed it on
-- KEYS[3]  queue    zset     token to ticket, in order of arrival
-- KEYS[4]  waiters  hash     token to `aliveUntil watched grantMs inbox holder`; `#` to the last ticket
-- ARGV[1]  first    integer  how many waiters to show
--
-- Reply     {msLeft, owner, fence, waiting, holder, …}  msLeft -2: free; the holders of the first waiters in order
--           error KIT_LAYOUT                           written by a newer version, or damaged
local lease = KEYS[1]
local fence = KEYS[2]
local queue = KEYS[3]
local waiters = KEYS[4]
local first = tonumber(ARGV[1])

local stored = redis.call('GET', fence)
if stored and not string.match(stored .. ':', '^1:%d+:') then
  return redis.error_reply('KIT_LAYOUT the lock was written by a newer version, or is damaged')
end
local reply = {
  redis.call('PTTL', lease),
  redis.call('GET', lease) or '',
  stored or '',
  redis.call('ZCARD', queue),
}
for _, token in ipairs(redis.call('ZRANGE', queue, 0, first - 1)) do
  reply[#reply + 1] = string.match(redis.call('HGET', waiters, token) or '', '^%d+ %d+ %d+ %S+ (.*)$') or ''
end
return reply
