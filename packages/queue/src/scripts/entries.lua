-- entries.lua - how a job stands in lists of work: its id, or `!priority!id` where the priority is not 0.
--
-- Defines idOf, entryOf, leasedEntry
local function idOf(entry)
  if string.byte(entry) ~= 33 then return entry, 0 end
  local priority, id = string.match(entry, '^!(-?%d+)!(.*)$')
  return id, tonumber(priority)
end

local function entryOf(id, priority)
  return priority == 0 and id or string.format('!%d!%s', priority, id)
end

-- What stands behind the fence of 12 characters in a member of `leases`.
local function leasedEntry(member)
  return string.sub(member, 13)
end
