-- heartbeat.lua - renews leases.
-- A lease that is no longer held is not renewed.
--
-- KEYS[1]  leases   zset     take id and entry to the instant at which the lease ends, ms
-- KEYS[2]  wake     zset     markers that wake workers
-- KEYS[3]  meta     hash     counters
-- KEYS[4]  revoked  zset     leases that ended without their holder
-- KEYS[5]  workers  hash     id of a worker to the instant of its record, ms, then the record
-- ARGV[1]  leaseMs  integer  length of the leases from now on
-- ARGV[2]  members  string   of `leases`, one per line, at most 500
-- ARGV[3]  record   string   of their worker; `=`: the stored one; empty: the stored one, which stays as old as it is
--
-- Reply     {now, lost}  server time, epoch ms; members that are no longer held, one per line; with a tab and `cancelled` if their
--           jobs were cancelled
local leases = KEYS[1]
local wake = KEYS[2]
local meta = KEYS[3]
local revoked = KEYS[4]
local workers = KEYS[5]
local leaseMs = tonumber(ARGV[1])
local members = ARGV[2]
local record = ARGV[3]

-- Libraries

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
failOnOtherType(wake, meta)
allowWrites(leases)
local ends, scores, list = string.format('%.0f', now + leaseMs), {}, {}
for member in string.gmatch(members, '[^\n]+') do
  list[#list + 1] = member
  scores[#scores + 1] = ends
  scores[#scores + 1] = member
end
local lost = {}
if redis.call('ZADD', leases, 'XX', 'CH', unpack(scores)) < #list then
  -- ZADD does not count a lease whose end was already this millisecond.
  for i, score in ipairs(redis.call('ZMSCORE', leases, unpack(list))) do
    if not score then lost[#lost + 1] = revokedAs(revoked, list[i]) or list[i] end
  end
end
makeContact(meta, now, leaseMs)
watchLeases(meta, wake, now, leaseMs)
if record ~= '' then showWorker(workers, string.sub(members, 1, 7), now, record) end
return { now, table.concat(lost, '\n') }
