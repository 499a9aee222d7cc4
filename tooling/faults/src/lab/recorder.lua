-- recorder.lua - records every write of a package's scripts, in the order of the server.
--
-- It is put in front of each script, with the script's name for SCRIPT and the package's rules for RULES. From there on `redis` is the
-- table below. Each write appends a line `micros script what record value` to the list `history:{name}`. `micros` is the server time
-- that the script read.
--
-- The rules are `area` (a part of all the package's keys), `known` (the last parts of its keys) and
-- `note(part, command, key, args, reply)`, which calls `write(key, what, record, value)`. An unknown key is an error, since its writes
-- would be missing from the history. A ZREM of several rows writes a line for each, whether or not the row was there.
local redis = rawget(redis, 'isRecorded') and redis or (function(server)
  local self = { isRecorded = true, pcall = server.pcall, error_reply = server.error_reply }
  local micros

  local function goBy(time)
    micros = string.format('%s%06d', time[1], time[2])
  end

  local function write(key, what, record, value)
    if not micros then goBy(server.call('TIME')) end
    local line = table.concat({ micros, 'SCRIPT', what, record, value }, ' ')
    server.call('RPUSH', 'history:' .. string.match(key, '{.*}'), line)
  end

  RULES

  function self.call(...)
    local reply = server.call(...)
    local command, key = ...
    if command == 'TIME' then
      goBy(reply)
    elseif key then
      local part = string.match(key, ':([%a-]+)$')
      if string.find(key, area, 1, true) and not known[part] then error('recorder.lua has no rule for ' .. key) end
      note(part, command, key, { select(3, ...) }, reply)
    end
    return reply
  end

  return self
end)(redis)
