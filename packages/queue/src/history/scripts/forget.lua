-- forget.lua - deletes records of jobs whose ends were refused.
--
-- KEYS[1]  kept     zset    id of an ended job to the instant of its end, ms
-- KEYS[2]  records  hash    id to its record; `!bytes` to the bytes of all
-- ARGV[1]  members  string  of `leases`, one per line, at most 500. Records of other takes stay
--
-- Reply    how many were deleted
local kept = KEYS[1]
local records = KEYS[2]
local members = ARGV[1]

-- Libraries

local ids, bytes = {}, 0
failOnOtherType(kept)
for member in string.gmatch(members, '[^\n]+') do
  local id = idOf(leasedEntry(member))
  local record = redis.call('HGET', records, id)
  if record and takeIdOf(record) == takeIdOf(member) then
    ids[#ids + 1] = id
    bytes = bytes + #record
  end
end
if #ids == 0 then return 0 end
redis.call('HINCRBY', records, '!bytes', -bytes)
redis.call('HDEL', records, unpack(ids))
redis.call('ZREM', kept, unpack(ids))
return #ids
