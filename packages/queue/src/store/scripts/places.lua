-- places.lua - finds the place of a job that is not active.
--
-- Needs optionOf, groupOf, placedEntry, seats, nameOf
-- Defines placeOf, leave

local function memberIn(key, from, to, entry)
  repeat
    local page = redis.call('ZRANGE', key, from, to, 'BYLEX', 'LIMIT', 0, 1000)
    for _, member in ipairs(page) do
      if string.sub(member, -#entry) == entry and placedEntry(member) == entry then return member end
    end
    from = '(' .. (page[1000] or '')
  until not page[1000]
end

-- `delayed` and the instant at which it is due, `prioritised`, `waiting`, its member of `suspended`, or that of `grouped` behind `@`; nil if it
-- is in none of them. The search in `waiting` takes about 0.1 s per million jobs before it, in `suspended` up to 1 s per million of its name,
-- and in `grouped` the same per million of its group.
local function placeOf(waiting, prioritised, delayed, suspended, id, entry, blob)
  local due = redis.call('ZSCORE', delayed, entry)
  if due then return 'delayed', due end
  local group = groupOf(entry)
  if group then
    local member = memberIn(seats.grouped, '[' .. group .. ' ', '(' .. group .. '!', entry)
    if member then return '@' .. member end
  elseif redis.call('ZSCORE', prioritised, id) then return 'prioritised'
  elseif redis.call('LPOS', waiting, id) then return 'waiting' end
  local name = nameOf(blob) or ''
  local from, to = '[' .. name .. ' ', '(' .. name .. '!'
  -- A `keepLast` add may have given the job another name meanwhile.
  if optionOf(blob, 'latestKey') then from, to = '-', '+' end
  return memberIn(suspended, from, to, entry)
end

-- The script's last command on the key of that place, which it may empty. For `grouped`, `closeGroups` has the last command.
local function leave(place, waiting, prioritised, delayed, suspended, id, entry)
  if place == 'delayed' then redis.call('ZREM', delayed, entry)
  elseif place == 'prioritised' then redis.call('ZREM', prioritised, id)
  elseif place == 'waiting' then redis.call('LREM', waiting, 1, id)
  elseif string.byte(place) ~= 64 then redis.call('ZREM', suspended, place) end
end
