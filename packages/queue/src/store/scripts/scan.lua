-- scan.lua - reads a page of the entries of `jobs`, `leases`, `waiting`, `suspended` or `grouped`. Changes nothing.
--
-- KEYS[1]  jobs         hash    id to header and payload
-- KEYS[2]  waiting      list    ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset    ids of the other ready jobs
-- KEYS[4]  delayed      zset    entry to the instant at which it is due, ms
-- KEYS[5]  leases       zset    take id and entry to the instant at which the lease ends, ms
-- KEYS[6]  dead         zset    id to the instant of its death
-- KEYS[7]  suspended    zset    ready jobs whose names are stopped, see `names.lua`
-- KEYS[8]  grouped      zset    ready jobs that have a group, see `groups.lua`
-- ARGV[1]  from         string  `leases`; `waiting`; `suspended`; `grouped`; or `jobs`: all jobs that are neither dead, delayed nor prioritised
-- ARGV[2]  cursor       string  0 for the first page, then the last reply's cursor
--
-- Reply     {cursor, entry, at, …}  cursor of the next page, 0: there is none; each entry with the end of its lease as text, or empty; of
--           `leases` members in place of entries
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local leases = KEYS[5]
local dead = KEYS[6]
local suspended = KEYS[7]
local grouped = KEYS[8]
local from = ARGV[1]
local cursor = ARGV[2]

-- Libraries

local reply = { cursor }
local function show(entry, at)
  reply[#reply + 1] = entry
  reply[#reply + 1] = at
end
if from == 'waiting' then
  -- From the end, since jobs leave at the front: a job that stays is not skipped.
  local ids = redis.call('LRANGE', waiting, -cursor - 4000, -cursor - 1)
  for _, id in ipairs(ids) do show(id, '') end
  cursor = #ids < 4000 and '0' or string.format('%d', cursor + 4000)
elseif from == 'leases' then
  local page = redis.call('ZSCAN', leases, cursor, 'COUNT', 1000)
  for i = 1, #page[2], 2 do show(page[2][i], page[2][i + 1]) end
  cursor = page[1]
elseif from == 'suspended' or from == 'grouped' then
  local page
  if from == 'grouped' then page = redis.call('ZSCAN', grouped, cursor, 'COUNT', 1000)
  else page = redis.call('ZSCAN', suspended, cursor, 'COUNT', 1000) end
  for i = 1, #page[2], 2 do show(placedEntry(page[2][i]), '') end
  cursor = page[1]
else
  local page = redis.call('HSCAN', jobs, cursor, 'COUNT', 100)
  for i = 1, #page[2], 2 do
    local id = page[2][i]
    local entry = entryOfBlob(id, page[2][i + 1])
    local isElsewhere = redis.call('ZSCORE', dead, id)
      or redis.call('ZSCORE', prioritised, id)
      or redis.call('ZSCORE', delayed, entry)
    if not isElsewhere then show(entry, '') end
  end
  cursor = page[1]
end
reply[1] = cursor
return reply
