-- clean.lua - deletes jobs of one state that are old enough.
-- One call looks at about 100 of them, or at up to 500 of `waiting`. It leaves jobs in `delayed` that wait for their children.
--
-- KEYS[1]  jobs         hash     id to header and payload
-- KEYS[2]  failures     hash     id to attempts, crashes, last error
-- KEYS[3]  delayed      zset     entry to the instant at which it is due, ms
-- KEYS[4]  wake         zset     markers that wake workers
-- KEYS[5]  unique       hash     key to its last job
-- KEYS[6]  dead         zset     id to the instant of its death
-- KEYS[7]  meta         hash     counters
-- KEYS[8]  limits       hash     what keeps jobs from starting; `listened`
-- KEYS[9]  events       stream   recorded events
-- KEYS[10] families     hash     the open and ended children of each parent, see `flow.lua`
-- KEYS[11] grouped  zset    ready jobs that have a group, see `groups.lua`
-- KEYS[12] turns    zset    groups in the order of their turns
-- KEYS[13] held     zset    group and id of each job that has one of its group's places
-- KEYS[14] groups   hash    settings of groups
-- KEYS[15] listed       string   the jobs of the state: a list of ids, or a zset of ids, entries, or members of `suspended` or `grouped`
-- ARGV[1]  verb         string   `show`: changes nothing; or `clean`
-- ARGV[2]  state        string   `waiting`, `prioritised`, `suspended`, `grouped`, `delayed` or `dead`
-- ARGV[3]  olderThanMs  integer  only jobs that were added, or died, this long before the operation; 0: all
-- ARGV[4]  begun        string   server time at which the operation started, epoch ms; empty: now
-- ARGV[5]  name         string   only jobs of this name, as their headers have it; empty: all
-- ARGV[6]  cursor       string   0 for the first page, then the last reply's cursor
--
-- Reply     {n, cursor, begun}  how many were deleted, or would be; cursor of the next page, 0: there is none; when the operation started
local jobs = KEYS[1]
local failures = KEYS[2]
local delayed = KEYS[3]
local wake = KEYS[4]
local unique = KEYS[5]
local dead = KEYS[6]
local meta = KEYS[7]
local limits = KEYS[8]
local events = KEYS[9]
local families = KEYS[10]
local grouped = KEYS[11]
local turns = KEYS[12]
local held = KEYS[13]
local groups = KEYS[14]
local listed = KEYS[15]
local verb = ARGV[1]
local state = ARGV[2]
local olderThanMs = tonumber(ARGV[3])
local begun = ARGV[4]
local name = ARGV[5]
local cursor = ARGV[6]

-- Libraries

failOnOtherType(jobs, failures, delayed, wake, dead, meta, families)
joinGroups(true, grouped, turns, held, groups)
listen(limits)
if begun == '' then
  local time = redis.call('TIME')
  begun = string.format('%d%03d', time[1], math.floor(time[2] / 1000))
end
local latest = olderThanMs == 0 and math.huge or begun - olderThanMs
local isList, isKeyed = state == 'waiting', redis.call('HLEN', unique) > 0
local entries, scores, nextCursor = {}, {}, '0'
if isList then
  -- From the end, since jobs leave at the front: a job that stays is not skipped.
  entries = redis.call('LRANGE', listed, -cursor - 500, -cursor - 1)
else
  local page = redis.call('ZSCAN', listed, cursor, 'COUNT', 100)
  nextCursor = page[1]
  for i = 1, #page[2], 2 do
    entries[#entries + 1] = page[2][i]
    scores[#entries] = page[2][i + 1]
  end
end
local members, places, ids, isChosen, bytes, looked = {}, {}, {}, {}, 0, 0
-- Keys that no job has after these jobs are deleted; see `unique.lua`. Otherwise they would stay until later adds remove them.
local freed, size = {}, 0
for i = #entries, 1, -1 do
  if isList and bytes > 4194304 then break end
  looked = looked + 1
  local entry = entries[i]
  local isPlaced = state == 'suspended' or state == 'grouped'
  local id = idOf(isPlaced and placedEntry(entry) or entry)
  local blob = redis.call('HGET', jobs, id) or ''
  bytes = bytes + #blob
  -- A job that cannot be read counts as old.
  local at = state == 'dead' and tonumber(scores[i]) or tonumber(string.match(blob, '^(%w+) ') or '0', 36) or 0
  local isParent = state == 'delayed' and tonumber(scores[i]) >= parked
  if id ~= '' and not isParent and not isChosen[id] and at <= latest and (name == '' or nameOf(blob) == name) then
    isChosen[id] = true
    ids[#ids + 1] = id
    members[#members + 1] = entry
    places[#members] = -cursor - looked
    size = size + #blob + redis.call('HSTRLEN', failures, id)
    local key = isKeyed and decoded(optionOf(blob, 'uniqueKey') or optionOf(blob, 'latestKey') or '')
    local last, till = string.match(key and redis.call('HGET', unique, key) or '', '^(%S+) (%d+) $')
    if last and decoded(last) == id and till + 0 <= begun + 0 then freed[#freed + 1] = key end
  end
end
if isList and looked > 0 then nextCursor = string.format('%d', cursor + looked) end
if verb ~= 'clean' then return { #ids, nextCursor, begun } end

allowWrites(delayed)
for _, member in ipairs(isList and {} or members) do
  leaveGroup(state == 'suspended' and placedEntry(member) or member, state == 'grouped' and '@' .. member or '')
end
turnGroups(wake)
if state == 'dead' then
  redis.call('HINCRBY', meta, 'deadBytes', 0 - size)
  for _, id in ipairs(ids) do disband(families, id) end
elseif isKeyed or redis.call('EXISTS', families) == 1 then
  for _, id in ipairs(ids) do
    releaseSuccessor(jobs, delayed, wake, id)
    settle(jobs, delayed, wake, failures, dead, meta, families, id, 'removed')
  end
end
for i, id in ipairs(ids) do
  tell('removed', id)
  -- No job has this id. The places of the others stay as they are until the last call.
  if isList then redis.call('LSET', listed, places[i], '') end
end
if #ids > 0 then
  redis.call('HDEL', jobs, unpack(ids))
  redis.call('HDEL', failures, unpack(ids))
  closeFamilies(delayed, families)
  if not isList and state ~= 'grouped' then redis.call('ZREM', listed, unpack(members)) end
  closeGroups()
end
if #freed > 0 then redis.call('HDEL', unique, unpack(freed)) end
-- A removal inside a list is a search, about 0.1 s per million jobs before it.
if isList and looked == 0 and redis.call('LREM', listed, 10000, '') == 10000 then nextCursor = cursor end
recordEvents(events)
return { #ids, nextCursor, begun }
