-- results.lua - results of a commit: checked as a whole, then applied.
--
-- Each is four arguments: kind (`h+` HINCRBY, `h=` HSET, `s` SADD, `z` ZINCRBY), number of its key, field, value.
-- All checks come before the first write, since a script that fails half way is not undone.
--
-- Defines checkResults, applyResults
local typeOfKind = { ['h+'] = 'hash', ['h='] = 'hash', s = 'set', z = 'zset' }

--- Returns nil, or what is wrong: `type <key>` or `number <key>`.
local function checkResults(keys, results, from)
  local types = {}
  for i = from, #results, 4 do
    local kind, key = results[i], keys[tonumber(results[i + 1])]
    types[key] = types[key] or redis.call('TYPE', key).ok
    local wanted = typeOfKind[kind]
    if types[key] == 'none' then types[key] = wanted end
    if types[key] ~= wanted then return 'type ' .. results[i + 1] end
    if kind == 'h+' then
      local value = redis.call('HGET', key, results[i + 2])
      -- Up to 15 digits no sum of two leaves the range of HINCRBY or of a JavaScript number.
      if value and not (string.match(value, '^%-?%d+$') and #value <= 16) then return 'number ' .. results[i + 1] end
    end
  end
  return nil
end

local function applyResults(keys, results, from)
  for i = from, #results, 4 do
    local kind, key, field, value = results[i], keys[tonumber(results[i + 1])], results[i + 2], results[i + 3]
    if kind == 'h+' then
      redis.call('HINCRBY', key, field, value)
    elseif kind == 'h=' then
      redis.call('HSET', key, field, value)
    elseif kind == 's' then
      redis.call('SADD', key, field)
    else
      redis.call('ZINCRBY', key, value, field)
    end
  end
end
