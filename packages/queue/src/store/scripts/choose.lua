-- choose.lua - chooses the jobs that a step takes while names have limits.
-- It changes nothing. The step then moves jobs of stopped names from the front of the ready jobs to `suspended`, so that no step meets
-- them again.
--
-- Needs idOf, placedEntry, nameOf, limitsOf, inTurn
-- Defines addStale, chooseByName

-- Adds the members of `named` whose leases are gone, though no script removed them: someone deleted them, or an older worker ended them.
-- It looks up 50 at a time, each time another part. `namedOf` handles those in `isEnding`.
local function addStale(leaving, leases, named, isEnding, micros)
  local start = 50 * (micros % (math.floor(redis.call('ZCARD', named) / 50) + 1))
  for _, member in ipairs(redis.call('ZRANGE', named, start, start + 49)) do
    local lease = string.match(member, ' (.*)$') or ''
    if not isEnding[lease] and not redis.call('ZSCORE', leases, lease) then table.insert(leaving, member) end
  end
end

-- Chooses up to `count` jobs from `suspended` and from the ready jobs, which `firstReady(n)` reads, until they have `maxBytes`. Jobs in
-- `inTurn` have a group, and come before `suspended` if they are first. Members of `named` that are `leaving` do not count as active.
-- Replies with their entries, ids and blobs; how many jobs of priority 0 it met, and the ids of the others; those of them that it suspends,
-- at most 100, each with its name; members of `suspended` that it took; of the taken ones the name and entry if the name has a
-- concurrency; whether further jobs in `suspended` may start; whether there was no room for further ones; how many jobs with a group it met.
local function chooseByName(jobs, suspended, named, names, leaving, count, maxBytes, firstReady)
  local entries, ids, blobs, ranked, later, brought, held, plain, ofGroups = {}, {}, {}, {}, {}, {}, {}, 0, 0
  local add = table.insert
  -- For each name, how many more of its jobs may start: below 1 for one that is paused.
  local room, limits = {}, limitsOf(names)
  for _, member in ipairs(leaving) do
    local name = string.match(member, '^%S+')
    if limits[name] then limits[name] = limits[name] + 1 end
  end
  local function roomOf(name)
    room[name] = room[name] or limits[name]
      and limits[name] - redis.call('ZLEXCOUNT', named, '[' .. name .. ' ', '(' .. name .. '!') or math.huge
    return room[name]
  end

  -- The first job in `suspended` between two bounds: its member, name, and place with entry.
  local function firstBetween(low, high)
    local member = redis.call('ZRANGE', suspended, low, high, 'BYLEX', 'LIMIT', 0, 1)[1]
    return member and { member, string.match(member, '^(%S*) ?(.*)$') }
  end
  local function isBefore(one, other) return one[3] < other[3] end
  -- The first job of each name, by place. A step that takes nothing needs no job after one that may start. With very many names, the last
  -- ones wait for a later step.
  local firsts, from = {}, '-'
  for _ = 1, 200 do
    local first = firstBetween(from, '+')
    if not first then break end
    from = '[' .. first[2] .. '!'
    add(firsts, first)
    if count == 0 and roomOf(first[2]) > 0 then break end
  end
  table.sort(firsts, isBefore)
  -- Of names that may go on. Names behind it are not counted.
  local function firstSuspended()
    while firsts[1] and roomOf(firsts[1][2]) < 1 do table.remove(firsts, 1) end
    return firsts[1]
  end

  local ready, r, bytes = count > 0 and firstReady(count + 100) or {}, 1, 0
  while #entries < count and #later < 100 and bytes < maxBytes do
    local first, entry = firstSuspended(), ready[r]
    local id, priority = idOf(entry or '')
    local own, urgency = idOf(first and placedEntry(first[1]) or '')
    local isPreferred = not entry or urgency <= priority and not (inTurn.isFirst and inTurn[entry])
    if first and isPreferred then
      entry, id = placedEntry(first[1]), own
      add(brought, first[1])
      table.remove(firsts, 1)
      -- The next job of the name takes its place among the others.
      local following, i = firstBetween('(' .. first[1], '(' .. first[2] .. '!'), 1
      while following and firsts[i] and isBefore(firsts[i], following) do i = i + 1 end
      if following then add(firsts, i, following) end
    elseif entry then
      r = r + 1
      if inTurn[entry] then ofGroups = ofGroups + 1
      elseif priority == 0 then plain = plain + 1 else add(ranked, id) end
    else break end
    local blob = redis.call('HGET', jobs, id)
    local name = nameOf(blob)
    bytes = bytes + #(blob or '')
    if name and roomOf(name) < 1 then add(later, { name, entry })
    else
      add(entries, entry)
      add(ids, id)
      add(blobs, blob)
      if name and room[name] < math.huge then
        room[name] = room[name] - 1
        add(held, { name, entry })
      end
    end
  end
  local others = { later = later, brought = brought, held = held, isMore = firstSuspended(), isCut = bytes >= maxBytes, ofGroups = ofGroups }
  return entries, ids, blobs, plain, ranked, others
end
