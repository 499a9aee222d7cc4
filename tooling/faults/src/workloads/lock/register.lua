-- register.lua - the resource that the lock guards: a number which refuses fencing tokens older than the newest it saw.
--
-- KEYS[1]  state    hash     `fence`: newest token seen, `value`: the number, `op`: the last accepted access
-- KEYS[2]  history  list     one line for each access, in the order in which the server saw them
-- KEYS[3]  lease    string   the lock's own key, which holds the current lease
-- ARGV[1]  action   string   `read` or `write`; the read raises the register's fence already
-- ARGV[2]  fence    string   fencing token of the caller's lease
-- ARGV[3]  token    string   the lease itself
-- ARGV[4]  worker   string   id of the worker
-- ARGV[5]  op       string   id of this access: sent twice it has one effect and one line
-- ARGV[6]  base     string   the value that a write is based on; the new value is one more
-- ARGV[7]  fenced   integer  0 for the control that accepts every access
--
-- Reply     {verdict, value, owned, micros, msLeft}; verdict `accepted` or `refused`; owned 1: by this token, 0: by
--           another or nobody; msLeft of the lease, -2 when there is none
local state = KEYS[1]
local history = KEYS[2]
local lease = KEYS[3]
local action = ARGV[1]
local fence = ARGV[2]
local token = ARGV[3]
local worker = ARGV[4]
local op = ARGV[5]
local base = ARGV[6]
local fenced = ARGV[7] ~= '0'

local time = redis.call('TIME')
local micros = string.format('%.0f', tonumber(time[1]) * 1000000 + tonumber(time[2]))
local known = redis.call('HMGET', state, 'fence', 'value', 'op')
local newest, value = tonumber(known[1] or '0'), known[2] or '0'
local owner = string.match(redis.call('GET', lease) or '', '^([^|]*)|')
local owned = owner == token and 1 or 0
local msLeft = redis.call('PTTL', lease)
if known[3] == op then return { 'accepted', value, owned, micros, msLeft } end

local verdict = 'accepted'
if fenced and tonumber(fence) < newest then verdict = 'refused' end
local line = { micros, action, fence, token, worker, op, base, value, verdict, owned }
redis.call('RPUSH', history, table.concat(line, ' '))
if verdict == 'accepted' then
  if action == 'write' then value = string.format('%.0f', tonumber(base) + 1) end
  redis.call('HSET', state, 'fence', fence, 'value', value, 'op', op)
end
return { verdict, value, owned, micros, msLeft }
