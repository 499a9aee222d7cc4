-- revoked.lua - remembers leases that ended without their holder.
-- They are kept for ten minutes: longer than a worker is usually paused before it reports the end of its job.
--
-- Defines revoke, revokedAs

-- The instant plus a half means that the job was cancelled.
local function revoke(revoked, now, member, isCancelled)
  redis.call('ZADD', revoked, string.format(isCancelled and '%.0f.5' or '%.0f', now), member)
  redis.call('ZREMRANGEBYSCORE', revoked, '-inf', string.format('(%.0f', now - 600000))
  redis.call('PEXPIRE', revoked, 600000)
end

-- The line that informs the lease's holder: the member, then the mark of a cancelled job. Nil: the lease was not revoked.
local function revokedAs(revoked, member)
  local at = redis.call('ZSCORE', revoked, member)
  return at and (string.find(at, '.', 1, true) and member .. '\tcancelled' or member) or nil
end
