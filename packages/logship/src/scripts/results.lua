-- results.lua - results of a commit: checked as a whole, then applied.
--
-- Each is four texts of a JSON list: kind (`h+` HINCRBY, `h=` HSET, `s` SADD, `z` ZINCRBY), number of its key from `first` on, field, value. Neither
-- list is unpacked: a commit may have more fields than Lua's stack can hold. All checks come before the first write, since a script that fails half
-- way is not undone.
--
-- Defines checkResults, applyResults
local typeOfKind = { ['h+'] = 'hash', ['h='] = 'hash', s = 'set', z = 'zset' }

--- Returns nil or the fault, `type <key>` or `number <key>`; and the keys that the results will create.
local function checkResults(keys, first, results)
  local types, made = {}, {}
  for i = 1, #results, 4 do
    local kind, number, field = unpack(results, i, i + 2)
    local key = keys[first - 1 + tonumber(number)]
    types[key] = types[key] or redis.call('TYPE', key).ok
    local wanted = typeOfKind[kind]
    if types[key] == 'none' then
      types[key] = wanted
      made[#made + 1] = key
    end
    if types[key] ~= wanted then return 'type ' .. number end
    if kind == 'h+' then
      local value = redis.call('HGET', key, field)
      -- Up to 15 digits no sum of two leaves the range of HINCRBY or of a JavaScript number.
      -- HINCRBY takes no `007`.
      local isInteger = value == '0' or (value and #value <= 16 and string.match(value, '^%-?[1-9]%d*$'))
      if value and not isInteger then return 'number ' .. number end
    end
  end
  return nil, made
end

--- `owner` keeps the names of the keys, so that a deletion finds them.
local function applyResults(owner, made, keys, first, results)
  for _, key in ipairs(made) do redis.call('HSET', owner, 'result ' .. key, 1) end
  for i = 1, #results, 4 do
    local kind, number, field, value = unpack(results, i, i + 3)
    local key = keys[first - 1 + tonumber(number)]
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
