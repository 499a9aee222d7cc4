-- leaveGroup.lua - removes a job from its group.
--
-- Needs seats, meetGroup, vacate
-- Defines leaveGroup

-- Call this when a job leaves the queue. `place`: where `placeOf` found it.
local function leaveGroup(entry, place)
  if string.byte(place) ~= 64 then return vacate(entry) end
  local facts = meetGroup(string.match(place, '^@(%S*)'))
  -- Several may leave in one call.
  if facts.isCapped then facts.waiting, facts.isCapped = redis.call('ZLEXCOUNT', seats.grouped, facts.from, facts.to), nil end
  facts.waiting = facts.waiting - 1
  seats.gone[#seats.gone + 1] = string.sub(place, 2)
end
