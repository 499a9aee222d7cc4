-- choose.lua - chooses the jobs that a step takes while names have limits.
-- It changes nothing. Jobs of names that are stopped leave the front of the ready ones for `suspended`, so that no step meets them again.
--
-- Needs idOf, suspendedEntry, nameOf, limitsOf
-- Defines chooseByName

-- Chooses up to `count` jobs, from `suspended` and from the ready ones, which `firstReady(n)` reads; those in `isEnding` are no longer active.
-- Replies with their entries, ids and blobs; how many jobs of priority 0 it met, and the ids of the others; those of them that it suspends,
-- at most 100, each with its name; members of `suspended` that it took; of the taken ones the name and entry if the name has a concurrency;
-- members of `named` whose leases ended; whether further jobs in `suspended` may begin.
local function chooseByName(jobs, leases, suspended, named, names, isEnding, count, firstReady)
  local entries, ids, blobs, ranked, later, brought, held, stale, plain = {}, {}, {}, {}, {}, {}, {}, {}, 0
  local add = table.insert
  local function ofName(key, name, ...)
    return redis.call('ZRANGE', key, '[' .. name .. ' ', '(' .. name .. '!', 'BYLEX', ...)
  end
  -- For each name, how many more of its jobs may begin.
  local room, limits = {}, limitsOf(names)
  local function roomOf(name)
    if room[name] then return room[name] end
    local most = limits[name] or math.huge
    if limits[name] and most > 0 then
      local members, active = ofName(named, name), {}
      for i = 1, #members do active[i] = string.sub(members[i], #name + 2) end
      for i, ends in ipairs(#members > 0 and redis.call('ZMSCORE', leases, unpack(active)) or {}) do
        if ends and not isEnding[active[i]] then most = most - 1 else add(stale, members[i]) end
      end
    end
    room[name] = most
    return most
  end

  -- The first jobs in `suspended` of each name that may begin. With very many of them the last names wait for a later step.
  local first, from = {}, '-'
  for _ = 1, 200 do
    local member = redis.call('ZRANGE', suspended, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
    if not member then break end
    local name = string.match(member, '^%S+')
    from = '[' .. name .. '!'
    if #first > 1000 then room[name] = 0 end
    if roomOf(name) > 0 then
      for _, other in ipairs(ofName(suspended, name, 'LIMIT', 0, math.min(room[name], count) + 1)) do
        add(first, { name, string.sub(other, #name + 2), other })
      end
    end
  end
  table.sort(first, function(one, other) return one[2] < other[2] end)

  local ready, f, r, bytes = count > 0 and firstReady(count + 100) or {}, 1, 1, 0
  local function firstSuspended()
    while first[f] and room[first[f][1]] < 1 do f = f + 1 end
    return first[f] and first[f][3]
  end
  while #entries < count and #later < 100 and bytes < 4194304 do
    local member, entry = firstSuspended(), ready[r]
    local id, priority = idOf(entry or '')
    local own, urgency = idOf(suspendedEntry(member or ''))
    if member and (not entry or urgency <= priority) then
      entry, id, f = suspendedEntry(member), own, f + 1
      add(brought, member)
    elseif entry then
      r = r + 1
      if priority == 0 then plain = plain + 1 else add(ranked, id) end
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
  return entries, ids, blobs, plain, ranked, { later = later, brought = brought, held = held, stale = stale, isMore = firstSuspended() }
end
