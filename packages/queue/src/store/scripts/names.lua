-- names.lua - limits by the names of jobs.
-- `names` in `limits` has a line feed and `name concurrency pausedAt` for each name with a limit, 0 for none. Ready jobs that it keeps from
-- starting are in `suspended`, as `name place entry`. A place is the priority and a number, so that the jobs of a name sort in their order.
--
-- The index `named` has `name member` for each member of `leases` whose name had a concurrency as the job was taken. A script that ends such
-- a lease removes it; only then a count by name is one command.
--
-- Needs idOf, groupOf, leasedEntry, placedAs, nameOf
-- Defines limitsOf, namedOf, returnSuspended

-- For each name with a limit, how many of its jobs may be active: 0 if it is paused.
local function limitsOf(names)
  local limits = {}
  for name, most, pausedAt in string.gmatch(names or '', '(%S+) (%d+) (%d+)') do
    limits[name] = pausedAt == '0' and tonumber(most) or 0
  end
  return limits
end

local function storedName(jobs, entry)
  return nameOf(redis.call('HGET', jobs, (idOf(entry)))) or ''
end

-- The members of `named` for these members of `leases`, if there are any. The jobs are still stored.
local function namedOf(jobs, named, names, members)
  local found, limits = {}, limitsOf(names)
  for _, member in ipairs(names and redis.call('ZCARD', named) > 0 and members or {}) do
    local name = storedName(jobs, leasedEntry(member))
    local one = name .. ' ' .. member
    if limits[name] and redis.call('ZSCORE', named, one) then found[#found + 1] = one end
  end
  return found
end

-- Puts jobs of names with limits ahead of the other jobs of their priority in `suspended`. Replies with the other jobs. Jobs with a group
-- return to their group: a job that has left `suspended` has lost its place there.
local function returnSuspended(jobs, suspended, names, entries)
  if not names then return entries end
  local others, limits = {}, limitsOf(names)
  for i = #entries, 1, -1 do
    local entry = entries[i]
    local name = storedName(jobs, entry)
    if limits[name] and not groupOf(entry) then
      local low, high = placedAs(name, entry, 0), placedAs(name, entry, 9e15)
      local first = redis.call('ZRANGE', suspended, '[' .. low, '[' .. high, 'BYLEX', 'LIMIT', 0, 1)[1] or ''
      local number = string.match(first, ' %d%d%d%d%d%d%d(%d+)') or 1e15 + 1
      redis.call('ZADD', suspended, 0, placedAs(name, entry, number - 1))
    else
      table.insert(others, 1, entry)
    end
  end
  return others
end
