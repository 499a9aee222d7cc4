-- recorder.lua - what the semaphore's scripts do, written down by themselves in the order of truth.
--
-- Put in front of each of them, with its name for SCRIPT: from there on `redis` is this table.
--
-- Each write leaves a line `micros script what permitRecord value until` in the list `history:{name}`, micros being the
-- instant that the script went by. What: `add` and `set` (a permit, or its new end; value: the end), `rem` (value: `own` if
-- it is the permit record of the caller), `join` and `leave` (the wait queue), `suspend` and `resume` (a waiter), `permits`
-- and `perTenant` (a limit). A ZREM of several rows is noted for each of them, whichever was there. Until: the end of the
-- caller's acquire, if that is what the caller asks for. A key that this file does not know is an error: without it a
-- history would look complete.
local redis = rawget(redis, 'isRecorded') and redis or (function(server)
  local self = { isRecorded = true, pcall = server.pcall, error_reply = server.error_reply }
  local micros
  local untilMs = 'SCRIPT' == 'acquire' and string.match(ARGV[2], '^%d+ (%d+) ') or '-'

  local function goBy(time)
    micros = string.format('%s%06d', time[1], time[2])
  end

  local function write(key, what, permitRecord, value)
    if not micros then goBy(server.call('TIME')) end
    local line = table.concat({ micros, 'SCRIPT', what, permitRecord, value, permitRecord == ARGV[1] and untilMs or '-' }, ' ')
    server.call('RPUSH', 'history:' .. string.match(key, '{.*}'), line)
  end

  local known = { permits = true, meta = true, queue = true, ready = true, waiters = true }

  local function note(reply, command, key, ...)
    local part = string.match(key, ':(%a+)$')
    local args = { ... }
    if string.match(key, ':semaphore:{') and not known[part] then error('recorder.lua does not know ' .. key) end
    if part == 'permits' and command == 'ZADD' then
      if args[1] == 'XX' then
        write(key, 'set', args[3], args[2])
      else
        write(key, reply == 1 and 'add' or 'set', args[2], args[1])
      end
    elseif part == 'permits' and command == 'ZREM' and reply > 0 then
      for _, permitRecord in ipairs(args) do
        write(key, 'rem', permitRecord, permitRecord == ARGV[1] and 'own' or 'other')
      end
    elseif part == 'queue' and command == 'ZADD' then
      write(key, string.sub(args[2], 1, 1) == '|' and 'suspend' or 'join', string.match(args[2], '%S+$'), '-')
    elseif part == 'queue' and command == 'ZREM' and reply > 0 then
      for _, row in ipairs(args) do
        write(key, string.sub(row, 1, 1) == '|' and 'resume' or 'leave', string.match(row, '%S+$'), '-')
      end
    elseif part == 'meta' and command == 'HSET' then
      for i = 1, #args, 2 do
        if args[i] == 'permits' or args[i] == 'perTenant' then write(key, args[i], '-', args[i + 1]) end
      end
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
