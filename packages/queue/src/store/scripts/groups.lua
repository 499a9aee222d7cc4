-- groups.lua - runs the jobs of a group in order, and gives all groups fair turns.
-- `grouped` has the ready jobs that have a group, as `group place entry`; `held` has `group id` for each job that has one of the places of
-- its group: it is active, or it waits for its next attempt or for its name. `turns` has each group that has jobs in these two, by virtual
-- time: a job that starts moves its group on by 10,000, divided by its weight. If the group may not start now, `away` is added. `groups`
-- has settings: of one group `concurrency weight pausedAt`, 0 for those of all; and of all groups, under the empty name, `concurrency retry
-- count perMs`, as long as the queue exists: see `noGroups.lua`. A group of which no job may begin before an instant has that instant, ms, plus twice `away`, until it is met after that.
--
-- A script that moves a job to, from or within these keys meets its group. `turnGroups` then decides again whether that group may start.
--
-- Needs idOf, groupOf, entryOf, placedAs, placedEntry, inBatches, wakeWorker, wakeTimers
-- Defines seats, inTurn, joinGroups, expectGroups, meetGroup, haltGroup, vacate, enterGroups, settlePlace, tendGroups, withGroups, groupShare, beginGroups, turnGroups, closeGroups

local away = 4000000000000000
-- Of this call: the keys; the groups that it met; places that jobs got; what leaves each key at its end: places, members of `grouped`, groups.
local seats = { met = {}, got = {}, lost = {}, gone = {}, idle = {}, stored = {} }
-- The jobs that may start, in the order of their turns; and for the entry of each `true`.
local inTurn = {}

-- Call this before the first write: it fails if one of these keys has another type.
local function joinGroups(_, grouped, turns, held, groups)
  seats.grouped, seats.turns, seats.held, seats.groups = grouped, turns, held, groups
  for _, key in ipairs({ grouped, turns }) do redis.call('ZCARD', key) end
  seats.heldCount = redis.call('ZCARD', held)
  seats.hasOwn = redis.call('HLEN', groups) > 1
end

-- Reads in few commands what `meetGroup` would read for each group: the scores in `turns`, unless the caller has them, and the places of all
-- jobs, unless there are many more places than groups.
local function expectGroups(names, scores)
  if #names == 0 then return end
  scores = scores or redis.call('ZMSCORE', seats.turns, unpack(names))
  for i, name in ipairs(names) do seats.stored[name] = scores[i] end
  if seats.places or seats.heldCount > 8 * #names then return end
  seats.places, seats.active = {}, {}
  for _, place in ipairs(redis.call('ZRANGE', seats.held, 0, -1)) do
    local group = string.match(place, '^%S*')
    seats.places[place], seats.active[group] = true, (seats.active[group] or 0) + 1
  end
end

-- A group and its state, with the changes of this call. If the group runs one job at a time, this counts at most two waiting jobs.
local function meetGroup(group)
  if not seats.virtual then
    -- The first turn. If no group may start, about the turn of the last job that started.
    local first = tonumber(redis.call('ZRANGE', seats.turns, 0, 0, 'WITHSCORES')[2] or nil) or 0
    if first >= away then
      local before = string.format('(%.0f', 2 * away)
      first = tonumber(redis.call('ZREVRANGEBYSCORE', seats.turns, before, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or nil) or 0
      first = first - away - 10000
    end
    seats.virtual = math.max(0, math.min(away - 1, first))
    local time = redis.call('TIME')
    seats.now = time[1] * 1000 + math.floor(time[2] / 1000)
    local all = redis.call('HGET', seats.groups, '') or ''
    seats.most = tonumber(string.match(all, '^[1-9]%d*') or 1)
    -- The time between two jobs of a group.
    local count, perMs = string.match(all, ' ([1-9]%d*) (%d+)$')
    seats.every = count and math.ceil(perMs / count)
  end
  if seats.met[group] then return seats.met[group] end
  local most, step = seats.most, 10000
  local own = seats.hasOwn and redis.call('HGET', seats.groups, group)
  if own then
    local ownMost, weight, pausedAt = string.match(own, '^(%d+) (%d+) (%d+)$')
    if (ownMost or '0') ~= '0' then most = tonumber(ownMost) end
    if (pausedAt or '0') ~= '0' then most = 0 end
    step = math.max(1, math.floor(10000 / math.max(1, tonumber(weight or 1))))
  end
  local from, to = '[' .. group .. ' ', '(' .. group .. '!'
  local stored = seats.stored[group]
  if stored == nil then stored = redis.call('ZSCORE', seats.turns, group) end
  stored = tonumber(stored or nil)
  local first = most <= 1 and redis.call('ZRANGE', seats.grouped, from, to, 'BYLEX', 'LIMIT', 0, 2)
  seats.met[group] = {
    name = group,
    from = from,
    to = to,
    most = most,
    step = step,
    waiting = first and #first or redis.call('ZLEXCOUNT', seats.grouped, from, to),
    first = first and first[1],
    isCapped = first and first[2],
    active = seats.active and (seats.active[group] or 0) or redis.call('ZLEXCOUNT', seats.held, from, to),
    stored = stored,
    turn = stored and stored >= 0 and stored < 2 * away and stored % away or nil,
    opensAt = stored and stored >= 2 * away and stored - 2 * away or 0,
  }
  return seats.met[group]
end

local function mayBegin(facts)
  return facts.waiting > 0 and facts.active < facts.most and facts.opensAt <= seats.now
end

-- Keeps all jobs of this entry's group from starting before an instant.
local function haltGroup(entry, at)
  local facts = meetGroup((groupOf(entry)))
  facts.opensAt = math.max(facts.opensAt, math.min(at, 900000000000000))
end

-- A group that had no jobs starts after all groups that are a turn ahead, so it gains nothing by adding jobs one at a time.
local function turnOf(facts)
  return math.min(away - 1, facts.turn and math.max(facts.turn, seats.virtual) or seats.virtual + facts.step)
end

-- Frees the place of a job in its group. Without `group`, it reads the group from the entry. Returns whether the job had a place.
local function vacate(entry, group, id)
  if not group then group, id = groupOf(entry) end
  local place = group and group .. ' ' .. id
  if not place or seats.lost[place] then return false end
  if not seats.got[place] then
    local isHeld = seats.places and seats.places[place] or not seats.places and redis.call('ZSCORE', seats.held, place)
    if not isHeld then return false end
  end
  local facts = meetGroup(group)
  facts.active = facts.active - 1
  seats.got[place], seats.lost[place] = nil, true
  return true
end

-- Puts ready jobs after or ahead of the other jobs of their group and priority. Jobs that kept a place always go ahead. Replies with the
-- jobs that have no group.
local function enterGroups(entries, atFront)
  local others, members, edges = {}, {}, {}
  local first, last, step = 1, #entries, 1
  if atFront then first, last, step = #entries, 1, -1 end
  for i = first, last, step do
    local entry = entries[i]
    local group = groupOf(entry)
    if group then
      local facts = meetGroup(group)
      local isFront = facts.active > 0 and vacate(entry) or atFront
      local edge = (isFront and '<' or '>') .. group .. string.match(entry, '^!%-?%d+@')
      local number = edges[edge]
      if not number then
        local found
        local low, high = placedAs(group, entry, 0), placedAs(group, entry, 9000000000000000)
        -- Also those that leave are stored until the end.
        if facts.waiting + #seats.gone > 0 then
          if isFront then found = redis.call('ZRANGE', seats.grouped, '[' .. low, '[' .. high, 'BYLEX', 'LIMIT', 0, 1)[1]
          else found = redis.call('ZRANGE', seats.grouped, '[' .. high, '[' .. low, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1] end
        end
        number = tonumber(string.match(found or '', '^%S+ %d%d%d%d%d%d%d(%d+)')) or 1000000000000000
      end
      edges[edge] = number + (isFront and -1 or 1)
      facts.waiting, facts.hasEntered = facts.waiting + 1, true
      members[#members + 1] = 0
      members[#members + 1] = placedAs(group, entry, edges[edge])
    end
  end
  if #members == 0 then return entries end
  for _, entry in ipairs(entries) do
    if not groupOf(entry) then others[#others + 1] = entry end
  end
  inBatches(members, function(...) redis.call('ZADD', seats.grouped, ...) end)
  return others
end

-- Whether a job of this entry, whose attempt ended this way, keeps its place in its group. Otherwise the place is freed.
local function settlePlace(jobs, way, entry, id)
  local waits = (way == 'retry' or way == 'snooze') and groupOf(entry) and redis.call('HEXISTS', jobs, id) == 1
  if not waits or string.find(redis.call('HGET', seats.groups, '') or '', 'pass', 1, true) then vacate(entry) end
end

-- Whether jobs of groups are ready. Each look meets groups whose halt has ended. It also checks ten places and the turn of one group: a place
-- without a job, for example after someone deleted keys, would stop its group.
local function tendGroups(looks, jobs, dead, now, micros)
  math.randomseed(micros % 1000000)
  local function some(key, most)
    local start = math.random(0, math.max(0, redis.call('ZCARD', key) - most))
    return redis.call('ZRANGE', key, start, start + most - 1)
  end
  if looks then
    for _, place in ipairs(some(seats.held, 10)) do
      local group, id = string.match(place, '^(%S+) (.*)$')
      local isGone = id and (redis.call('HEXISTS', jobs, id) == 0 or redis.call('ZSCORE', dead, id))
      if isGone then vacate(entryOf(id, 0, group)) end
    end
    for _, member in ipairs(some(seats.grouped, 1)) do meetGroup(string.match(member, '^%S*')) end
    local open = string.format('%.0f', 2 * away + now)
    local halted = redis.call('ZRANGEBYSCORE', seats.turns, string.format('%.0f', 2 * away), open, 'LIMIT', 0, 100)
    for _, group in ipairs(halted) do meetGroup(group) end
  end
  return redis.call('EXISTS', seats.grouped) == 1
end

-- The jobs that may start next, up to `count`, in the order of their groups' turns.
local function nextInTurn(count)
  local line, turns, byTurn, chosen = {}, {}, {}, {}
  local names, scores = {}, {}
  local found = redis.call('ZRANGEBYSCORE', seats.turns, '-inf', string.format('(%.0f', away), 'WITHSCORES', 'LIMIT', 0, count)
  for i = 1, #found, 2 do
    names[#names + 1], scores[#scores + 1] = found[i], found[i + 1]
  end
  expectGroups(names, scores)
  for _, group in ipairs(names) do meetGroup(group) end
  -- Groups with the same turn are sorted by name. Sorting numbers and names is faster than sorting by a function.
  for group, facts in pairs(seats.met) do
    if mayBegin(facts) then
      facts.turn = turnOf(facts)
      if not byTurn[facts.turn] then
        turns[#turns + 1], byTurn[facts.turn] = facts.turn, {}
      end
      table.insert(byTurn[facts.turn], group)
    end
  end
  table.sort(turns)
  for _, turn in ipairs(turns) do
    table.sort(byTurn[turn])
    for _, group in ipairs(byTurn[turn]) do line[#line + 1] = { facts = seats.met[group], turn = turn, taken = 0 } end
  end
  local function isBefore(one, other)
    return one.turn < other.turn or one.turn == other.turn and one.facts.name < other.facts.name
  end
  local at = 1
  while #chosen < count and line[at] do
    local one = line[at]
    at = at + 1
    local facts = one.facts
    -- Another job may be ahead of the first one that was read.
    local member = one.taken == 0 and not facts.hasEntered and facts.first
      or redis.call('ZRANGE', seats.grouped, facts.from, facts.to, 'BYLEX', 'LIMIT', one.taken, 1)[1]
    if member then
      chosen[#chosen + 1] = { facts = facts, turn = one.turn, member = member, entry = placedEntry(member) }
      one.taken, one.turn = one.taken + 1, one.turn + facts.step
      if not seats.every and one.taken < facts.waiting and facts.active + one.taken < facts.most then
        local i = at
        while line[i] and isBefore(line[i], one) do i = i + 1 end
        table.insert(line, i, one)
      end
    end
  end
  return chosen
end

-- Up to `wanted` ready jobs, of which at most `count` have a group. Half of the time, at random, the jobs of groups come first.
local function withGroups(count, wanted, firstReady)
  inTurn.isFirst = math.random() < 0.5
  local found = inTurn.isFirst and {} or firstReady(wanted)
  for i, one in ipairs(nextInTurn(math.min(count, wanted - #found))) do
    inTurn[i], inTurn[one.entry] = one, true
    found[#found + 1] = one.entry
  end
  if inTurn.isFirst and #found < wanted then
    for _, entry in ipairs(firstReady(wanted - #found)) do found[#found + 1] = entry end
  end
  return found
end

-- How many of the first `count` out of all these have a group.
local function groupShare(count, all)
  return inTurn.isFirst and math.min(count, #inTurn) or math.max(0, count - all + #inTurn)
end

-- The first `count` jobs in turn start.
local function beginGroups(count)
  for i = 1, count do
    local one = inTurn[i]
    local facts = one.facts
    local place = facts.name .. ' ' .. idOf(one.entry)
    facts.waiting, facts.active, facts.turn = facts.waiting - 1, facts.active + 1, one.turn + facts.step
    seats.virtual = math.max(seats.virtual, one.turn)
    seats.gone[#seats.gone + 1] = one.member
    seats.got[place], seats.lost[place] = true, nil
    -- A start that was late by up to 100 ms does not delay the next one.
    if seats.every then
      local from = facts.opensAt > 0 and math.max(facts.opensAt, seats.now - math.min(100, seats.every)) or seats.now
      facts.opensAt = from + seats.every
    end
  end
end

-- Writes what this call adds, and wakes workers; in a step, only workers that wait for an instant. In a step, it replies with whether a group
-- may start, and when the first halted group goes on.
local function turnGroups(wake, isStep)
  local scores, places, isAny = {}, {}, false
  for group, facts in pairs(seats.met) do
    local isNext, turn = mayBegin(facts), turnOf(facts)
    isAny = isAny or isNext
    local isHalted = facts.opensAt > seats.now
    if isHalted then turn = facts.opensAt + 2 * away elseif not isNext then turn = turn + away end
    if isHalted and facts.waiting > 0 and (facts.hasEntered or turn ~= facts.stored) then wakeTimers(wake) end
    if facts.waiting + facts.active <= 0 and not isHalted then
      if facts.stored then seats.idle[#seats.idle + 1] = group end
    elseif turn ~= facts.stored then
      scores[#scores + 1] = string.format('%.0f', turn)
      scores[#scores + 1] = group
    end
  end
  for place in pairs(seats.got) do
    places[#places + 1] = 0
    places[#places + 1] = place
  end
  inBatches(places, function(...) redis.call('ZADD', seats.held, ...) end)
  inBatches(scores, function(...) redis.call('ZADD', seats.turns, ...) end)
  if not isStep then return isAny and wakeWorker(wake) end
  local function first(low, high)
    return redis.call('ZRANGEBYSCORE', seats.turns, low, high, 'WITHSCORES', 'LIMIT', 0, 1)[2]
  end
  local opens = first(string.format('%.0f', 2 * away), '+inf')
  return isAny or first('-inf', string.format('(%.0f', away)), opens and opens - 2 * away
end

-- The last commands of a script on these keys.
local function closeGroups()
  local places = {}
  for place in pairs(seats.lost) do places[#places + 1] = place end
  inBatches(seats.gone, function(...) redis.call('ZREM', seats.grouped, ...) end)
  inBatches(places, function(...) redis.call('ZREM', seats.held, ...) end)
  inBatches(seats.idle, function(...) redis.call('ZREM', seats.turns, ...) end)
end
