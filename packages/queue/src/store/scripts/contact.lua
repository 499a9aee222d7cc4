-- contact.lua - notices that no worker could reach the queue.
-- Each worker that has active jobs, or watches the jobs of others, stores the time in `meta`. After a silence no lease is reclaimed for a
-- while: its holder may be alive, and then renews the lease or hands the job back.
--
-- Defines makeContact

-- The instant until which no lease is reclaimed; 0 if there is none. A clock that was set back is ignored.
local function makeContact(meta, now, leaseMs)
  local last, till = unpack(redis.call('HMGET', meta, 'contactAt', 'graceUntil'), 1, 2)
  if now - (tonumber(last or nil) or now) > leaseMs / 2 + 1000 then
    till = string.format('%.0f', now + leaseMs * 0.35)
    redis.call('HSET', meta, 'graceUntil', till)
  end
  redis.call('HSET', meta, 'contactAt', string.format('%.0f', now))
  till = tonumber(till or nil) or 0
  return till > now and till < now + leaseMs and till or 0
end
