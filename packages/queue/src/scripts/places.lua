-- places.lua - finds where a job stands that is not active.
--
-- Defines placeOf, leave

-- `delayed` and the instant at which it is due, `prioritised`, or `waiting`; nil if it is in none of them. The search in `waiting` takes
-- about 0.1 s per million jobs before it.
local function placeOf(waiting, prioritised, delayed, id, entry)
  local due = redis.call('ZSCORE', delayed, entry)
  if due then return 'delayed', due end
  if redis.call('ZSCORE', prioritised, id) then return 'prioritised' end
  return redis.call('LPOS', waiting, id) and 'waiting' or nil
end

-- Its last command on the list of that place, which it may empty.
local function leave(place, waiting, prioritised, delayed, id, entry)
  if place == 'delayed' then redis.call('ZREM', delayed, entry)
  elseif place == 'prioritised' then redis.call('ZREM', prioritised, id)
  else redis.call('LREM', waiting, 1, id) end
end
