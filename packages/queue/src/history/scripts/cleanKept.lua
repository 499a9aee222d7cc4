-- cleanKept.lua - deletes records of jobs that ended long enough ago.
-- One call looks at about 100 of them.
--
-- KEYS[1]  kept         zset     id of an ended job to the instant of its end, ms
-- KEYS[2]  records      hash     id to its record; `!bytes` to the bytes of all
-- ARGV[1]  verb         string   `show`: changes nothing; or `clean`
-- ARGV[2]  olderThanMs  integer  only jobs that ended this long before the operation; 0: all
-- ARGV[3]  begun        string   server time at which the operation started, epoch ms; empty: now
-- ARGV[4]  name         string   only jobs of this name, as their headers have it; empty: all
-- ARGV[5]  cursor       string   0 for the first page, then the last reply's cursor
--
-- Reply     {n, cursor, begun}  how many were deleted, or would be; cursor of the next page, 0: there is none; when the operation started
local kept = KEYS[1]
local records = KEYS[2]
local verb = ARGV[1]
local olderThanMs = tonumber(ARGV[2])
local begun = ARGV[3]
local name = ARGV[4]
local cursor = ARGV[5]

failOnOtherType(records)
if begun == '' then
  local time = redis.call('TIME')
  begun = string.format('%d%03d', time[1], math.floor(time[2] / 1000))
end
local page = redis.call('ZSCAN', kept, cursor, 'COUNT', 100)
local ids, isChosen, bytes = {}, {}, 0
for i = 1, #page[2], 2 do
  local id = page[2][i]
  local isOld = olderThanMs == 0 or tonumber(page[2][i + 1]) <= begun - olderThanMs
  local record = isOld and not isChosen[id] and (redis.call('HGET', records, id) or '')
  if record and (name == '' or string.match(record, '^[^\n]*\n%S+ (%S+)') == name) then
    isChosen[id] = true
    ids[#ids + 1] = id
    bytes = bytes + #record
  end
end
if verb == 'clean' and #ids > 0 then
  redis.call('HINCRBY', records, '!bytes', 0 - bytes)
  redis.call('HDEL', records, unpack(ids))
  redis.call('ZREM', kept, unpack(ids))
end
return { #ids, page[1], begun }
