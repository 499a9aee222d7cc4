-- find.lua - says where one job is, and what is known of it. Changes nothing.
--
-- KEYS[1]  jobs         hash    id to header and payload
-- KEYS[2]  prioritised  zset    ids of ready jobs of other priorities than 0
-- KEYS[3]  delayed      zset    entry to the instant at which it is due, ms
-- KEYS[4]  leases       zset    fence and entry to the instant at which the lease ends, ms
-- KEYS[5]  failures     hash    id to attempts, crashes, last error
-- KEYS[6]  dead         zset    id to the instant of its death
-- ARGV[1]  id           string  of the job
--
-- Reply     {state, at, blob, record}: `none`, `dead`, `delayed`, `active` or `ready`; the instant of its death, at which it
--           is due, or at which its lease ends, as text in epoch ms, otherwise empty; what is stored of it
local jobs = KEYS[1]
local prioritised = KEYS[2]
local delayed = KEYS[3]
local leases = KEYS[4]
local failures = KEYS[5]
local dead = KEYS[6]
local id = ARGV[1]

-- Libraries

local blob = redis.call('HGET', jobs, id)
if not blob then return { 'none', '', '', '' } end
local record = redis.call('HGET', failures, id) or ''
local entry = entryOf(id, tonumber(string.match(blob, '^%S+ %S+[^\n]- p(-?%d+)') or 0))
local diedAt = redis.call('ZSCORE', dead, id)
if diedAt then return { 'dead', diedAt, blob, record } end
local dueAt = redis.call('ZSCORE', delayed, entry)
if dueAt then return { 'delayed', dueAt, blob, record } end
-- The fence of the job is not known, so all leases are read: the workers together hold a few thousand at most.
if not redis.call('ZSCORE', prioritised, id) then
  local cursor = '0'
  repeat
    local page = redis.call('ZSCAN', leases, cursor, 'COUNT', 1000)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      if leasedEntry(page[2][i]) == entry then return { 'active', page[2][i + 1], blob, record } end
    end
  until cursor == '0'
end
return { 'ready', '', blob, record }
