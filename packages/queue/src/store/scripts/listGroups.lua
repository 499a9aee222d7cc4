-- listGroups.lua - reads a page of the groups that have ready or active jobs, by name. Changes nothing.
--
-- KEYS[1]  jobs     hash     id to header and payload
-- KEYS[2]  delayed  zset     entry to the instant at which it is due, ms
-- KEYS[3]  grouped  zset     ready jobs that have a group, see `groups.lua`
-- KEYS[4]  turns    zset     groups in the order of their turns
-- KEYS[5]  held     zset     group and id of each job that has one of its group's places
-- KEYS[6]  groups   hash     settings of groups
-- ARGV[1]  from     string   where to start: a group's name and a space, or `!` for the group after it; empty: at the first group
-- ARGV[2]  count    integer  how many groups to read at most, up to 100
--
-- Reply     {now, name, ready, active, concurrency, weight, pausedAt, retryAt, haltedUntil, addedAt, …}  epoch ms; nine for each group: instants are text
--           in epoch ms, empty if there is none; retryAt is when the first of its jobs is due that wait for their next attempt, haltedUntil when the
--           rate or a handler lets the next one start, and addedAt
--           when its next job was added
local jobs = KEYS[1]
local delayed = KEYS[2]
local grouped = KEYS[3]
local turns = KEYS[4]
local held = KEYS[5]
local groups = KEYS[6]
local from = ARGV[1]
local count = tonumber(ARGV[2])

-- Libraries

local time = redis.call('TIME')
local reply = { string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)) }
local all = tonumber(string.match(redis.call('HGET', groups, '') or '', '^[1-9]%d*') or 1)
from = from == '' and '-' or '[' .. from
local function firstOf(key)
  return string.match(redis.call('ZRANGE', key, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1] or '', '^%S+')
end
for _ = 1, count do
  local group, other = firstOf(grouped), firstOf(held)
  if not group or other and other < group then group = other end
  if not group then break end
  local low, high = '[' .. group .. ' ', '(' .. group .. '!'
  from = '[' .. group .. '!'
  local most, weight, pausedAt = string.match(redis.call('HGET', groups, group) or '0 0 0', '^(%d+) (%d+) (%d+)$')
  local retryAt, addedAt = math.huge, ''
  for _, place in ipairs(redis.call('ZRANGE', held, low, high, 'BYLEX', 'LIMIT', 0, 10)) do
    local id = string.sub(place, #group + 2)
    local due = redis.call('ZSCORE', delayed, entryOfBlob(id, redis.call('HGET', jobs, id)))
    retryAt = math.min(retryAt, tonumber(due or nil) or math.huge)
  end
  local next = redis.call('ZRANGE', grouped, low, high, 'BYLEX', 'LIMIT', 0, 1)[1]
  local blob = next and redis.call('HGET', jobs, (idOf(placedEntry(next))))
  local turn = tonumber(redis.call('ZSCORE', turns, group) or nil) or 0
  local stamp = tonumber(string.match(blob or '', '^(%w+) ') or '', 36)
  if stamp then addedAt = string.format('%.0f', stamp) end
  local row = {
    group,
    redis.call('ZLEXCOUNT', grouped, low, high),
    redis.call('ZLEXCOUNT', held, low, high),
    tonumber(most or 0) > 0 and most or all,
    math.max(1, tonumber(weight or 1)),
    (pausedAt or '0') ~= '0' and pausedAt or '',
    retryAt < math.huge and string.format('%.0f', retryAt) or '',
    turn >= 8000000000000000 and string.format('%.0f', turn - 8000000000000000) or '',
    addedAt,
  }
  for _, value in ipairs(row) do reply[#reply + 1] = value end
end
return reply
