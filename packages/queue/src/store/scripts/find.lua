-- find.lua - reads the state and the stored data of one job, without a search. Changes nothing.
--
-- KEYS[1]  jobs         hash    id to header and payload
-- KEYS[2]  prioritised  zset    ids of ready jobs of other priorities than 0
-- KEYS[3]  delayed      zset    entry to the instant at which it is due, ms
-- KEYS[4]  failures     hash    id to attempts, crashes, last error
-- KEYS[5]  dead         zset    id to the instant of its death
-- ARGV[1]  id           string  of the job
--
-- Reply     {state, at, blob, record, entry}: `none`, `dead`, `delayed`, `waiting-for-children`, `ready`, or `lost`: only a search of `leases` and `waiting`
--           can find it; when it died or is due, as text in epoch ms, otherwise empty; header and payload, record in `failures`, entry
local jobs = KEYS[1]
local prioritised = KEYS[2]
local delayed = KEYS[3]
local failures = KEYS[4]
local dead = KEYS[5]
local id = ARGV[1]

-- Libraries

local blob = redis.call('HGET', jobs, id)
if not blob then return { 'none', '', '', '', '' } end
local entry = entryOfBlob(id, blob)
local state, at = 'dead', redis.call('ZSCORE', dead, id)
if not at then
  state, at = 'delayed', redis.call('ZSCORE', delayed, entry)
  if at and tonumber(at) >= parked then state = 'waiting-for-children' end
end
if not at then state = redis.call('ZSCORE', prioritised, id) and 'ready' or 'lost' end
return { state, at or '', blob, redis.call('HGET', failures, id) or '', entry }
