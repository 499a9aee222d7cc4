-- rank.lua - moves a job to another priority.
--
-- Needs makeReady, wakeWorker, leave, leaveGroup, enterGroups, turnGroups, closeGroups
-- Defines moveTo

-- Moves the job from where `placeOf` found it to the end of the priority of `entry`. A delayed job keeps its due time.
local function moveTo(entry, place, due, waiting, prioritised, delayed, suspended, wake, id, former)
  if due then
    redis.call('ZADD', delayed, due, entry)
    if entry ~= former then redis.call('ZREM', delayed, former) end
    return
  end
  if string.byte(place) == 64 then leaveGroup(former, place) end
  makeReady(waiting, prioritised, enterGroups({ entry }, false), false)
  wakeWorker(wake)
  turnGroups(wake)
  -- Removes the former entry. If both are in `waiting`, the former entry is first.
  if place ~= 'prioritised' or entry == id then leave(place, waiting, prioritised, delayed, suspended, id, former) end
  closeGroups()
end
