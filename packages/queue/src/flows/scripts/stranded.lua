-- stranded.lua - finds jobs that wait for children which no longer exist. Changes nothing.
-- While a flow does not have all its jobs, it finds none.
--
-- KEYS[1]  jobs      hash    id to header and payload
-- KEYS[2]  delayed   zset    entry to the instant at which it is due, ms
-- KEYS[3]  dead      zset    id to the instant of its death
-- KEYS[4]  families  hash    the open and ended children of each parent, see `flow.lua`
-- KEYS[5]  staged    hash    slices of flows, see `startFlow.lua`
-- ARGV[1]  cursor    string  0 for the first page, then the last reply's cursor
--
-- Reply     {cursor, id, …}  cursor of the next page, 0: there is none; the ids of such parents
local jobs = KEYS[1]
local delayed = KEYS[2]
local dead = KEYS[3]
local families = KEYS[4]
local staged = KEYS[5]
local cursor = ARGV[1]

-- Libraries

if redis.call('HEXISTS', staged, '') == 1 then return { '0' } end
local page = redis.call('HSCAN', families, cursor, 'COUNT', 50)
local reply = { page[1] }
for i = 1, #page[2], 2 do
  local id = page[2][i]
  local blob = not string.find(id, '\t', 1, true) and redis.call('HGET', jobs, id)
  local score = blob and redis.call('ZSCORE', delayed, entryOfBlob(id, blob))
  if score and tonumber(score) >= parked then
    local open, n = 0, 0
    while true do
      local child = redis.call('HGET', families, id .. '\t' .. n)
      if not child then break end
      n = n + 1
      local isOpen = not string.find(child, '\t', 1, true)
      if isOpen and redis.call('HEXISTS', jobs, child) == 1 and not redis.call('ZSCORE', dead, child) then open = open + 1 end
    end
    if open == 0 or open ~= tonumber(page[2][i + 1]) then reply[#reply + 1] = id end
  end
end
return reply
