-- recorder.lua - records every write of the semaphore's scripts, in the order of the server.
--
-- It is put in front of each script, with the script's name for SCRIPT. From there on `redis` is the table below.
--
-- Each write appends a line `micros script what permitRecord value until` to the list `history:{name}`:
--
-- - micros: the server time that the script read
-- - what: `add` (a permit; value: its end), `set` (a new end; value: the end),
--   `rem` (value: `own` if the permit record is the caller's), `join` and `leave` (the wait queue),
--   `suspend` and `resume` (a waiter), `permits` and `perTenant` (a limit)
-- - until: the deadline of the caller's acquire; `-` for any other permit record or script
--
-- The row `~`, which a key has only while a script runs, the rows that count, and those by tenant are left out. A ZREM of several rows writes a line for each, whether or not the row was there. An unknown key is an error, since its
-- writes would be missing from the history.
local redis = rawget(redis, 'isRecorded') and redis or (function(server)
  local self = { isRecorded = true, pcall = server.pcall, error_reply = server.error_reply }
  local micros
  local untilMs = 'SCRIPT' == 'acquire' and string.match(ARGV[2], '^%d+ (%d+) ') or '-'

  local function goBy(time)
    micros = string.format('%s%06d', time[1], time[2])
  end

  local function write(key, what, permitRecord, value)
    if permitRecord == '~' or permitRecord == '' or string.find(permitRecord, '^[#=]') then return end
    if not micros then goBy(server.call('TIME')) end
    local line = table.concat({ micros, 'SCRIPT', what, permitRecord, value, permitRecord == ARGV[1] and untilMs or '-' }, ' ')
    server.call('RPUSH', 'history:' .. string.match(key, '{.*}'), line)
  end

  local known = { permits = true, meta = true, queue = true, ready = true, waiters = true }

  local function note(reply, command, key, ...)
    local part = string.match(key, ':(%a+)$')
    local args = { ... }
    if string.match(key, ':semaphore:{') and not known[part] then error('recorder.lua has no rule for ' .. key) end
    if part == 'permits' and command == 'ZADD' then
      local isOld = args[1] == 'XX' or reply == 0
      for i = args[1] == 'XX' and 2 or 1, #args, 2 do
        write(key, isOld and 'set' or 'add', args[i + 1], args[i])
      end
    elseif part == 'permits' and command == 'ZREM' and reply > 0 then
      for _, permitRecord in ipairs(args) do
        write(key, 'rem', permitRecord, permitRecord == ARGV[1] and 'own' or 'other')
      end
    elseif part == 'queue' and command == 'ZADD' then
      for i = 1, #args, 2 do
        local row = args[i + 1]
        write(key, string.sub(row, 1, 1) == '|' and 'suspend' or 'join', string.match(row, '%S+$'), '-')
      end
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
