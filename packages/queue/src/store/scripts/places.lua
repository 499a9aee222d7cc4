-- places.lua - finds where a job stands that is not active.
--
-- Needs optionOf, suspendedEntry, nameOf
-- Defines placeOf, leave

-- `delayed` and the instant at which it is due, `prioritised`, `waiting`, or its member of `suspended`; nil if it is in none of them. The search in
-- `waiting` takes about 0.1 s per million jobs before it, that in `suspended` up to 1 s per million of its name.
local function placeOf(waiting, prioritised, delayed, suspended, id, entry, blob)
  local due = redis.call('ZSCORE', delayed, entry)
  if due then return 'delayed', due end
  if redis.call('ZSCORE', prioritised, id) then return 'prioritised' end
  if redis.call('LPOS', waiting, id) then return 'waiting' end
  local name = nameOf(blob) or ''
  local from, to = '[' .. name .. ' ', '(' .. name .. '!'
  -- A job of the mode `keepLast` may have been given another name meanwhile.
  if optionOf(blob, 'latestKey') then from, to = '-', '+' end
  repeat
    local page = redis.call('ZRANGE', suspended, from, to, 'BYLEX', 'LIMIT', 0, 1000)
    for _, member in ipairs(page) do
      if string.sub(member, -#entry) == entry and suspendedEntry(member) == entry then return member end
    end
    from = '(' .. (page[1000] or '')
  until not page[1000]
  return nil
end

-- Its last command on the key of that place, which it may empty.
local function leave(place, waiting, prioritised, delayed, suspended, id, entry)
  if place == 'delayed' then redis.call('ZREM', delayed, entry)
  elseif place == 'prioritised' then redis.call('ZREM', prioritised, id)
  elseif place == 'waiting' then redis.call('LREM', waiting, 1, id)
  else redis.call('ZREM', suspended, place) end
end
