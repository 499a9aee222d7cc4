-- readWorkers.lua - reads the records of some workers that are alive. Changes nothing.
-- A record and each take are signs of life. Records can have any size and content.
--
-- KEYS[1]  workers  hash    id of a worker to the instant of its record, ms, then the record, see `record.ts`
-- KEYS[2]  leases   zset    take id and entry to the instant at which the lease ends, ms
-- KEYS[n]  taken    string  three for each worker: its last take in each slot
-- ARGV[n]  ids      string  of the workers, at most 50
--
-- Reply     {now, id, seenAt, facts, names, running, member, begunAt, …}  server time, epoch ms; seven for each worker: when it last gave a
--           sign of life; two lines of its record; how many jobs of its record it still has; the member of the one that started first, and
--           when; both empty if there is none
local workers = KEYS[1]
local leases = KEYS[2]
local taken = { unpack(KEYS, 3) }
local ids = ARGV

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = { string.format('%.0f', now) }
for i, id in ipairs(ids) do
  local record = redis.call('HSTRLEN', workers, id) <= 65536 and redis.call('HGET', workers, id) or ''
  local at, facts, names, jobs = string.match(record, '^(%d+)\n([^\n]*)\n([^\n]*)(.*)$')
  local seenAt = tonumber(at or 0)
  for slot = 3 * i - 2, 3 * i do
    local left = at and redis.call('PTTL', taken[slot]) or 0
    if left > 0 then seenAt = math.max(seenAt, now - 600000 + left) end
  end
  if at and math.abs(now - seenAt) < 30000 then
    local members, begins, running, first = {}, {}, 0, nil
    for entry, begunAt in string.gmatch(jobs, '\n([^\n\t]+)\t(%d+)') do
      if #members < 500 then
        members[#members + 1] = id .. entry
        begins[#members] = begunAt
      end
    end
    for place, ends in ipairs(#members > 0 and redis.call('ZMSCORE', leases, unpack(members)) or {}) do
      if ends then
        running = running + 1
        first = first or place
      end
    end
    for _, value in ipairs({ id, string.format('%.0f', seenAt), facts, names, running, members[first] or '', begins[first] or '' }) do
      reply[#reply + 1] = value
    end
  end
end
return reply
