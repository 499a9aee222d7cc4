-- batches.lua - answers the batches of a call: each is counted once, or rejected before its first write.
--
-- Defines newerLayout, answered
--
-- A plan is `ledgerMs` (0: no ledger), and for each series one batch: `keys items validUntil seq`, then `items` operands for the
-- script. A batch has `keys` of the KEYS: its totals (hash), its writer's ledger (string), others.

local newerLayout = { err = 'KIT_LAYOUT a newer version wrote it' }

-- A key of another type would end the script at a write, between two series of the call. So types are checked before.
local function isOf(key, type)
  local found = redis.call('TYPE', key).ok
  return found == type or found == 'none'
end

-- Answers each batch of a call. `typeOf(index, at)` is the type of a batch's other keys, from index 0; `write(first, last, at, total)`
-- returns a text, or nil and the reason. Both get the place of the script's own operands.
local function answered(series, plan, typeOf, write)
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local ledgerMs = unpack(plan, 1, 1)

  local function answerTo(first, last, at, validUntil, seq)
    local totals, ledger = series[first], series[first + 1]
    if not isOf(totals, 'hash') or not isOf(ledger, 'string') then return 'type' end
    for key = first + 2, last do
      if not isOf(series[key], typeOf(key - first - 2, at)) then return 'type' end
    end
    -- Only counters have a total.
    local layout, total = unpack(redis.call('HMGET', totals, 'layout', 'total'))
    if layout and layout ~= '1' then return newerLayout end
    if ledgerMs ~= '0' then
      local before, result = string.match(redis.call('GET', ledger) or '', '^(%d+) (.*)$')
      if before and tonumber(before) >= tonumber(seq) then return result end
    end
    if validUntil ~= '0' and now > tonumber(validUntil) then return 'late' end
    local result, refusal = write(first, last, at, total)
    if result and ledgerMs ~= '0' then redis.call('SET', ledger, seq .. ' ' .. result, 'PX', ledgerMs) end
    return result or refusal
  end

  local replies = { string.format('%.0f', now) }
  local first, at = 1, 2
  while series[first] do
    local keys, items, validUntil, seq = unpack(plan, at, at + 3)
    replies[#replies + 1] = answerTo(first, first + keys - 1, at + 4, validUntil, seq)
    first = first + keys
    at = at + 4 + items
  end
  return replies
end
