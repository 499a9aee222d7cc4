-- listKept.lua - reads a page of the records of ended jobs, without their results. Changes nothing.
-- Jobs that are in the queue again are left out.
--
-- KEYS[1]  jobs     hash     id to header and payload
-- KEYS[2]  kept     zset     id of an ended job to the instant of its end, ms
-- KEYS[3]  records  hash     id to its record
-- ARGV[1]  from     string   `start`: the oldest first; `end`: the youngest first
-- ARGV[2]  start    integer  how many to skip
-- ARGV[3]  count    integer  how many to read, at most 100
-- ARGV[4]  name     string   only jobs of this name, as their headers have it; empty: all
--
-- Reply     {next, id, at, head, bytes, …}  how many to skip for the next page, or -1 at the end; four for each: when it ended, its record
--           without the result, the size of the result
local jobs = KEYS[1]
local kept = KEYS[2]
local records = KEYS[3]
local from = ARGV[1]
local start = tonumber(ARGV[2])
local count = tonumber(ARGV[3])
local name = ARGV[4]

-- Libraries

return page(from, start, count, function(low, high)
  return redis.call('ZRANGE', kept, low, high, 'WITHSCORES'), 2
end, function(id, at)
  local record = redis.call('HEXISTS', jobs, id) == 0 and redis.call('HGET', records, id)
  if not record then return nil, 0 end
  local head = string.match(record, '^[^\n]*\n[^\n]*\n[^\n]*\n') or ''
  if name ~= '' and string.match(head, '^[^\n]*\n%S+ (%S+)') ~= name then return nil, #record end
  return { id, at, head, string.format('%d', #record - #head) }, #record
end)
