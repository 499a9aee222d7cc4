-- recorder.lua - records every write of the read/write lock's scripts, in the order of the server.
--
-- It is put in front of each script, with the script's name for SCRIPT. From there on `redis` is the table below.
--
-- Each write appends a line `micros script what record value` to the list `history:{name}`:
--
-- - micros: the server time that the script read
-- - what: `hold` (a lease; value: its end), `extend` (a new end; value: the end),
--   `end` (a lease; value: `own` if it is the caller's), `join` (the wait queue; value: the ticket), `leave`,
--   `stand` (a waiter; value: until when it counts as alive, its inbox, and when it was asked for a heartbeat: 0 for never, negative
--   once it has sent one), `fence` (value: the newest fencing token)
--
-- A ZREM of several rows writes a line for each, whether or not the row was there. An unknown key is an error, since its
-- writes would be missing from the history.
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

  local known = { ['rw-leases'] = true, ['rw-fence'] = true, ['rw-queue'] = true, ['rw-waiters'] = true }

  local function note(reply, command, key, ...)
    local part = string.match(key, ':([%a-]+)$')
    local args = { ... }
    if string.match(key, ':lock:{') and not known[part] then error('recorder.lua has no rule for ' .. key) end
    if part == 'rw-leases' and command == 'ZADD' then
      if args[1] == 'XX' then
        write(key, 'extend', args[3], args[2])
      else
        for i = 1, #args, 2 do
          write(key, 'hold', args[i + 1], args[i])
        end
      end
    elseif part == 'rw-leases' and command == 'ZREM' and reply > 0 then
      for _, record in ipairs(args) do
        write(key, 'end', record, string.sub(record, 2) == string.sub(ARGV[1], 2) and 'own' or 'other')
      end
    elseif part == 'rw-queue' and command == 'ZADD' then
      write(key, 'join', args[2], args[1])
    elseif part == 'rw-queue' and command == 'ZREM' and reply > 0 then
      for _, record in ipairs(args) do
        write(key, 'leave', record, '-')
      end
    elseif part == 'rw-waiters' and command == 'HSET' then
      for i = 1, #args, 2 do
        if args[i] ~= '#' then
          local aliveUntil, inbox, asked = string.match(args[i + 1], '^(%d+) %d+ %d+ (%S+) ?(%-?%d*)$')
          write(key, 'stand', args[i], table.concat({ aliveUntil, inbox, tonumber(asked) and asked or '0' }, ' '))
        end
      end
    elseif part == 'rw-fence' and command == 'SET' then
      write(key, 'fence', '-', string.match(args[1], '^1:(%d+)$'))
    end
  end

  function self.call(...)
    local reply = server.call(...)
    local command, key = ...
    if command == 'TIME' then
      goBy(reply)
    elseif key then
      note(reply, ...)
    end
    return reply
  end

  return self
end)(redis)
