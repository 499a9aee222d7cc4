-- hold.lua - takes a slice of jobs, or a job scheduler with its next job, out of a BullMQ queue, so that none of its workers can start it.
-- Their hashes stay. The state has the slice until `release` ends it. A repeated call gets the slice; a late call gets nothing.
--
-- KEYS[1]  state    hash     `token` of the adoption, `target` queue, `number` and `count` of the last slice; its items `1` to `count`:
--                            kind, score, id
-- KEYS[2]  listed   any      the list or sorted set that has them
-- KEYS[n]  lists    any      for a job scheduler: `wait`, `paused`, `prioritized` and `delayed`, one of which has its next job
-- ARGV[1]  token    string   of the adoption
-- ARGV[2]  target   string   the queue that adopts them
-- ARGV[3]  number   integer  of the slice: one more than the last slice had
-- ARGV[4]  kind     string   `wait`, `paused`, `prioritized`, `delayed` or `repeat`
-- ARGV[5]  start    integer  of a list: how many jobs were after them
-- ARGV[6]  next     string   the next job of a job scheduler; empty: it has none
-- ARGV[n]  wanted   string   two for each, `id score`: its id, and its score as it was read
--
-- Reply     {item, …}  the slice, each as `kind score id`. Empty: nothing is held
local state = KEYS[1]
local listed = KEYS[2]
local lists = { unpack(KEYS, 3) }
local token = ARGV[1]
local target = ARGV[2]
local number = ARGV[3]
local kind = ARGV[4]
local start = tonumber(ARGV[5])
local next = ARGV[6]
local wanted = { unpack(ARGV, 7) }

local known = redis.call('HMGET', state, 'token', 'target', 'number', 'count')
local count = tonumber(known[4] or 0)
if known[1] and (known[1] ~= token or known[2] ~= target and count > 0) then return {} end
if count > 0 then
  if known[3] ~= number then return {} end
  local items = {}
  for i = 1, count do items[i] = redis.call('HGET', state, i) end
  return items
end
if tonumber(known[3] or 0) + 1 ~= tonumber(number) then return {} end

local isList = kind == 'wait' or kind == 'paused'
local places = {}
if isList then
  -- Meanwhile workers take jobs from the end, and put some back.
  local last = math.max(1, start - 1000)
  local window = redis.call('LRANGE', listed, -(start + 300), -last)
  for i, id in ipairs(window) do places[id] = -last - (#window - i) end
end
local items, members, fields = {}, {}, { 'token', token, 'target', target, 'number', number }
for at = 1, #wanted, 2 do
  local id, score = unpack(wanted, at, at + 1)
  if isList and places[id] or not isList and redis.call('ZSCORE', listed, id) == score then
    items[#items + 1] = kind .. ' ' .. score .. ' ' .. id
    members[#items] = id
    fields[#fields + 1] = #items
    fields[#fields + 1] = items[#items]
  end
end
if #items == 0 then return {} end
-- A job scheduler moves together with its next job, or stays. If only the job stayed, its worker could delete what only that job stores.
local place
if next ~= '' then
  for i, name in ipairs({ 'wait', 'paused', 'prioritized', 'delayed' }) do
    local score = i > 2 and redis.call('ZSCORE', lists[i], next) or i < 3 and redis.call('LPOS', lists[i], next)
    if score then
      place = i
      items[2] = name .. ' ' .. score .. ' ' .. next
    end
  end
  if not place then return {} end
  fields[#fields + 1] = 2
  fields[#fields + 1] = items[2]
end

fields[#fields + 1] = 'count'
fields[#fields + 1] = #items
redis.call('HSET', state, unpack(fields))
redis.call('PERSIST', state)
if isList then
  -- One search finds all of them: each is replaced by its place, and the replacements are removed together.
  local gone = '\0' .. token
  for _, id in ipairs(members) do redis.call('LSET', listed, places[id], gone) end
  redis.call('LREM', listed, -#members, gone)
else
  redis.call('ZREM', listed, unpack(members))
end
if place and place > 2 then
  redis.call('ZREM', lists[place], next)
elseif place then
  redis.call('LREM', lists[place], 1, next)
end
return items
