-- bucket.lua - the rate limit of a queue.
-- Each job that starts takes one piece from a bucket, into which pieces flow steadily (GCRA). `rate` in `limits` is `count perMs burst`:
-- `count` flow in per `perMs`, and the bucket holds `burst` of them. `fullAt` is the instant at which it is full, in epoch microseconds.
--
-- Defines bucketOf, refund

-- In microseconds: the time in which one piece flows in, the time that fills the bucket, and the time that is missing at `micros`.
local function bucketOf(rate, fullAt, micros)
  local count, perMs, burst = string.match(rate, '^(%d+) (%d+) (%d+)$')
  local piece = perMs * 1000 / count
  local missing = math.max(0, (tonumber(fullAt) or 0) - micros)
  -- More can be missing only if the server's clock was set back.
  return piece, burst * piece, missing > burst * piece + 1000 and 0 or missing
end

-- Puts back the pieces of this number of jobs, which were taken and did not start. Replies with the `names` that have limits.
local function refund(limits, jobs)
  local rate, fullAt, names = unpack(redis.call('HMGET', limits, 'rate', 'fullAt', 'names'), 1, 3)
  if rate and fullAt and jobs > 0 then
    redis.call('HSET', limits, 'fullAt', string.format('%.0f', fullAt - jobs * bucketOf(rate, fullAt, 0)))
  end
  return names
end
