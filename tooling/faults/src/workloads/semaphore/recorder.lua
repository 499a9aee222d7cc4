-- recorder.lua - the rules by which the writes of the semaphore's scripts are recorded.
--
-- - `add` (a permit; value: its end), `set` (a new end; value: the end), `rem` (value: `own` if the permit record is the caller's)
-- - `join` and `leave` (the wait queue), `suspend` and `resume` (a waiter), `permits` and `perTenant` (a limit)
--
-- Each value is followed by the deadline of the caller's acquire; `-` for any other permit record or script. The row `~`, which a key
-- has only while a script runs, the rows that count, and those by tenant are left out.
local area = ':semaphore:{'
local known = { permits = true, meta = true, queue = true, ready = true, waiters = true }
local untilMs = 'SCRIPT' == 'acquire' and string.match(ARGV[2], '^%d+ (%d+) ') or '-'

local function put(key, what, permitRecord, value)
  if permitRecord == '~' or permitRecord == '' or string.find(permitRecord, '^[#=]') then return end
  write(key, what, permitRecord, value .. ' ' .. (permitRecord == ARGV[1] and untilMs or '-'))
end

local function note(part, command, key, args, reply)
  if part == 'permits' and command == 'ZADD' then
    local isOld = args[1] == 'XX' or reply == 0
    for i = args[1] == 'XX' and 2 or 1, #args, 2 do
      put(key, isOld and 'set' or 'add', args[i + 1], args[i])
    end
  elseif part == 'permits' and command == 'ZREM' and reply > 0 then
    for _, permitRecord in ipairs(args) do
      put(key, 'rem', permitRecord, permitRecord == ARGV[1] and 'own' or 'other')
    end
  elseif part == 'queue' and command == 'ZADD' then
    for i = 1, #args, 2 do
      local row = args[i + 1]
      put(key, string.sub(row, 1, 1) == '|' and 'suspend' or 'join', string.match(row, '%S+$'), '-')
    end
  elseif part == 'queue' and command == 'ZREM' and reply > 0 then
    for _, row in ipairs(args) do
      put(key, string.sub(row, 1, 1) == '|' and 'resume' or 'leave', string.match(row, '%S+$'), '-')
    end
  elseif part == 'meta' and command == 'HSET' then
    for i = 1, #args, 2 do
      if args[i] == 'permits' or args[i] == 'perTenant' then put(key, args[i], '-', args[i + 1]) end
    end
  end
end
