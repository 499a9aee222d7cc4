-- keep.lua - records jobs that are about to end.
-- It records only those whose leases are held, and drops old records.
--
-- KEYS[1]  leases      zset     take id and entry to the instant at which the lease ends, ms
-- KEYS[2]  kept        zset     id of an ended job to the instant of its end, ms
-- KEYS[3]  records     hash     id to its record; `!bytes` to the bytes of all
-- ARGV[1]  maxCount    integer  how many records stay
-- ARGV[2]  maxAgeMs    integer  how long they stay
-- ARGV[3]  maxBytes    integer  how many bytes of records stay
-- ARGV[n]  ended       string   `member record` of each job, at most 500
--
-- Reply    how many were recorded
local leases = KEYS[1]
local kept = KEYS[2]
local records = KEYS[3]
local maxCount = tonumber(ARGV[1])
local maxAgeMs = tonumber(ARGV[2])
local maxBytes = tonumber(ARGV[3])
local ended = { unpack(ARGV, 4) }

-- Libraries

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local members, texts = {}, {}
for i = 1, #ended, 2 do
  local member, record = unpack(ended, i, i + 1)
  members[#members + 1] = member
  texts[#texts + 1] = record
end
local isNew, scores, fields = {}, {}, {}
local bytes = tonumber(redis.call('HGET', records, '!bytes') or 0) or 0
for i, lease in ipairs(redis.call('ZMSCORE', leases, unpack(members))) do
  if lease then
    local id, record = idOf(leasedEntry(members[i])), texts[i]
    isNew[id] = true
    scores[#scores + 1] = string.format('%.0f', now)
    scores[#scores + 1] = id
    fields[#fields + 1] = id
    fields[#fields + 1] = record
    bytes = bytes + #record - redis.call('HSTRLEN', records, id)
  end
end
if #scores == 0 then return 0 end
redis.call('ZADD', kept, unpack(scores))
redis.call('HSET', records, unpack(fields))
-- A new record is not dropped, so neither key becomes empty.
local dropped, count = {}, redis.call('ZCARD', kept)
local oldest = redis.call('ZRANGE', kept, 0, 0, 'WITHSCORES')
if count > maxCount or bytes > maxBytes or tonumber(oldest[2]) < now - maxAgeMs then
  oldest = redis.call('ZRANGE', kept, 0, #scores + 49, 'WITHSCORES')
  for i = 1, #oldest, 2 do
    local isOver = count - #dropped > maxCount or bytes > maxBytes or tonumber(oldest[i + 1]) < now - maxAgeMs
    if isNew[oldest[i]] or not isOver then break end
    dropped[#dropped + 1] = oldest[i]
    bytes = bytes - redis.call('HSTRLEN', records, oldest[i])
  end
end
-- A server that evicts keys may have dropped the ids, and not the records.
local strays = {}
if redis.call('HLEN', records) - 1 > count then
  for _, id in ipairs(redis.call('HRANDFIELD', records, 10)) do
    if id ~= '!bytes' and not redis.call('ZSCORE', kept, id) then
      strays[#strays + 1] = id
      bytes = bytes - redis.call('HSTRLEN', records, id)
    end
  end
end
redis.call('HSET', records, '!bytes', string.format('%d', math.max(0, bytes)))
if #strays > 0 then redis.call('HDEL', records, unpack(strays)) end
if #dropped > 0 then
  redis.call('HDEL', records, unpack(dropped))
  redis.call('ZREM', kept, unpack(dropped))
end
redis.call('PEXPIRE', records, maxAgeMs)
redis.call('PEXPIRE', kept, maxAgeMs)
return #scores / 2
