-- flow.lua - lets a job start once its children have ended.
-- The option `flow` in a header has for each parent of the job a comma, `f` (it fails with this child) or `i`, which of its children this
-- is, a colon, and the parent's id, percent-encoded. `families` has for each parent its id, with the number of its open children; and for
-- each child that id, a tab and the child's number, with the child's id, behind which a tab, its name, a tab and its outcome follow once it
-- has ended.
--
-- Needs parked, optionOf, parseRecord, nameOf, decoded, clock, heldBack, letGo, releaseSuccessor, inBatches, makeDead, tell
-- Defines settled, disband, settle, closeFamilies

-- What this call ends: ids; entries that leave `delayed`; parents that leave `families`. Removals come last.
local settled, parting, disbanded = {}, {}, {}

-- Forgets the children of a job that is about to be deleted.
local function disband(families, id)
  if redis.call('HEXISTS', families, id) == 1 then table.insert(disbanded, id) end
end

-- Call this before the job is deleted, or after it has become a dead letter. Each child counts once: its record must be its id alone. A
-- child that did not complete may make its parent a dead letter, which then settles as well. The first error is the cause of all of them.
-- Returns whether a parent may start.
local function settle(jobs, delayed, wake, failures, dead, meta, families, id, outcome)
  local list, isReleased = { { id, outcome } }, false
  for _, job in ipairs(list) do
    local child, result, cause = unpack(job, 1, 3)
    local blob = redis.call('HGET', jobs, child)
    local flow = optionOf(blob, 'flow')
    if not flow then break end
    settled[child] = true
    for policy, number, parent in string.gmatch(flow, ',(%l)(%d+):([^,]+)') do
      parent = decoded(parent)
      local field = parent .. '\t' .. number
      if redis.call('HGET', families, field) == child then
        local open = (tonumber(redis.call('HGET', families, parent) or 0) or 0) - 1
        local record = table.concat({ child, nameOf(blob) or '', result }, '\t')
        redis.call('HSET', families, field, record, parent, open)
        local entry, waiting, due = heldBack(jobs, delayed, parent, parked)
        if not entry or settled[parent] then
          -- It does not wait.
        elseif policy == 'f' and not string.find(result, '^[jb]') then
          local kind, rest = string.match(result, '^(%a*)\n?(.*)$')
          local error = '{"name":"ChildFailedError","code":"KIT_JOB_CHILD_FAILED","message":'
            .. cjson.encode('Child ' .. child .. ' did not complete: ' .. kind)
          cause = cause or kind == 'refused' and rest or string.match(select(3, parseRecord(rest)), '^[^\t]*')
          error = error .. (cause == '' and '' or ',"cause":' .. cause) .. '}'
          redis.call('HSET', failures, parent, '0\t0\t' .. error)
          makeDead(jobs, failures, dead, meta, parent, clock())
          tell('failed', parent, 'dead', '', '0\t0\t')
          releaseSuccessor(jobs, delayed, wake, parent)
          settled[parent] = true
          table.insert(parting, entry)
          table.insert(list, { parent, 'dead\n0\t0\t' .. error, cause ~= '' and cause or error })
        elseif open == 0 then
          letGo(jobs, delayed, wake, parent, entry, waiting, due)
          isReleased = true
        end
      end
    end
    if not string.find(result, '^dead') then disband(families, child) end
  end
  return isReleased
end

-- The last commands of a script on these keys.
local function closeFamilies(delayed, families)
  inBatches(parting, function(...) redis.call('ZREM', delayed, ...) end)
  for _, id in ipairs(disbanded) do
    for ten = 0, 1e9 do
      -- Turning each number into text would take longer than the rest.
      local n = id .. '\t' .. (ten > 0 and ten or '')
      if redis.call('HDEL', families, n .. '0', n .. '1', n .. '2', n .. '3', n .. '4', n .. '5', n .. '6', n .. '7', n .. '8', n .. '9') < 10 then break end
    end
    -- The parent's own field comes last, so that the key exists until here.
    redis.call('HDEL', families, id)
  end
end
