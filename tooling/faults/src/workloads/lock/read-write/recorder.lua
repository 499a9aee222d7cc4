-- recorder.lua - the rules by which the writes of the read/write lock's scripts are recorded.
--
-- - `hold` (a lease; value: its end), `extend` (a new end; value: the end), `end` (a lease; value: `own` if it is the caller's)
-- - `join` (the wait queue; value: the ticket), `leave`, `fence` (value: the newest fencing token)
-- - `stand` (a waiter; value: until when it counts as alive, its inbox, and when it was asked for a heartbeat: 0 for never, negative
--   once it has sent one)
local area = ':lock:{'
local known = { ['rw-leases'] = true, ['rw-fence'] = true, ['rw-queue'] = true, ['rw-waiters'] = true }

local function note(part, command, key, args, reply)
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
