-- renewal.lua - extends leases that sorted sets keep by the instant at which they end.
--
-- Defines extendEach
--
-- All inputs are parameters. Exported: packages that lease join it to their scripts.

-- Extends each lease that has not ended. Never shortens one: this may be a late copy. `terms` has `termMs record` for each key,
-- with the lease's new length in milliseconds; 0: it is only looked up. `otherOf(record)`: the record that the lease may have by
-- now. Returns the server's time, and 1 (extended, or it lasts longer already, or it exists), 0 (there is no such lease any
-- more) or 3 (the key holds something else) for each.
local function extendEach(keys, terms, otherOf)
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local reply = { now }
  -- A write without effect: at maxmemory the writes after a write that frees memory are allowed.
  redis.pcall('ZREM', keys[1], '')
  for i, key in ipairs(keys) do
    local termMs, record = string.match(terms[i], '^(%d+) (.*)$')
    local ms = tonumber(termMs)
    local ending = redis.pcall('ZSCORE', key, record)
    if not ending and otherOf then
      record = otherOf(record)
      ending = redis.pcall('ZSCORE', key, record)
    end
    if type(ending) == 'table' then
      reply[i + 1] = 3
    elseif not ending or tonumber(ending) <= now then
      reply[i + 1] = 0
    else
      if ms > 0 and tonumber(ending) < now + ms then
        redis.call('ZADD', key, 'XX', string.format('%.0f', now + ms), record)
      end
      if ms > 0 and redis.call('PTTL', key) < ms + 1000 then redis.call('PEXPIRE', key, 2 * ms + 1000) end
      reply[i + 1] = 1
    end
  end
  return reply
end
