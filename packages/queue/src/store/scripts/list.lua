-- list.lua - reads a page of the jobs in one state, without their payloads. Changes nothing.
--
-- KEYS[1]  jobs      hash     id to header and payload
-- KEYS[2]  failures  hash     id to attempts, crashes, last error
-- KEYS[3]  listed    string   the jobs of the state: a list of ids, or a zset of ids, entries, or members of `leases`, `suspended` or `grouped`
-- ARGV[1]  kind      string   `list`, `ids`, `leases`, `suspended` or `grouped`; `entries` that do not wait for children, `parents` that do
-- ARGV[2]  from      string   `start`: in their order; `end`: the last one first
-- ARGV[3]  start     integer  how many to skip
-- ARGV[4]  count     integer  how many to read, at most 100
-- ARGV[5]  name      string   only jobs of this name, as their headers have it; empty: all
-- ARGV[6]  group     string   only jobs of this group; empty: all
--
-- Reply     {next, id, at, header, bytes, record, member, …}  how many to skip for the next page, or -1 at the end; six for each: score of
--           a zset or empty, header line, size of the payload, record, its member of `leases` or empty
local jobs = KEYS[1]
local failures = KEYS[2]
local listed = KEYS[3]
local kind = ARGV[1]
local from = ARGV[2]
local start = tonumber(ARGV[3])
local count = tonumber(ARGV[4])
local name = ARGV[5]
local group = ARGV[6]

-- Libraries

-- Parents have the highest scores of `delayed`.
local before, all = 0, kind == 'entries' or kind == 'parents'
if all then
  all = redis.call('ZCOUNT', listed, '-inf', string.format('(%.0f', parked))
  if kind == 'parents' then before, all = all, redis.call('ZCARD', listed) end
end
-- The jobs of a group are next to each other in `grouped`.
if kind == 'grouped' and group ~= '' then
  before = redis.call('ZLEXCOUNT', listed, '-', '[' .. group .. ' ')
  all = redis.call('ZLEXCOUNT', listed, '-', '(' .. group .. '!')
end
return page(from, start, count, function(low, high)
  if all then
    low, high = low < 0 and all + low or before + low, high < 0 and all + high or before + high
    low, high = math.max(before, low), math.min(all - 1, high)
    return low <= high and redis.call('ZRANGE', listed, low, high, 'WITHSCORES') or {}, 2
  end
  if kind == 'list' then return redis.call('LRANGE', listed, low, high), 1 end
  return redis.call('ZRANGE', listed, low, high, 'WITHSCORES'), 2
end, function(entry, at)
  local member = kind == 'leases' and entry or ''
  if kind == 'leases' then entry = leasedEntry(entry) end
  if kind == 'suspended' or kind == 'grouped' then entry = placedEntry(entry) end
  local id = idOf(entry)
  local blob = redis.call('HGET', jobs, id) or ''
  local header = string.match(blob, '^[^\n]*')
  local isOther = name ~= '' and nameOf(header) ~= name or group ~= '' and optionOf(header, 'group') ~= group
  if isOther then return nil, #blob end
  local bytes = string.format('%d', math.max(0, #blob - #header - 1))
  local record = redis.call('HGET', failures, id) or ''
  return { id, at, header, bytes, record, member }, #blob + #record
end)
