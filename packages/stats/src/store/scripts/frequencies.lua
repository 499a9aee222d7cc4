-- frequencies.lua - counts the most frequent messages of a level in one window, in bounded memory.
--
-- Defines countIn, addMissed
--
-- `top` has the scores of the listed fingerprints. `seen` has `sure first last sample` of each; the empty
-- name, which is no fingerprint, has the bounds for messages that are not listed: `missed evicted`, the sum of what the batches
-- missed, and the largest score that left the list.

local function boundsOf(seen)
  local missed, evicted = string.match(redis.call('HGET', seen, '') or '', '^(%d+) (%d+)$')
  return tonumber(missed or 0), tonumber(evicted or 0)
end

local function setBounds(seen, missed, evicted)
  redis.call('HSET', seen, '', string.format('%.0f %.0f', missed, evicted))
end

local function addMissed(seen, more)
  local missed, evicted = boundsOf(seen)
  setBounds(seen, missed + more, evicted)
end

-- Metwally, Agrawal and El Abbadi (2005), Space-Saving: in a full list, a new member replaces the smallest, and
-- may have been counted as often as that one.
local function countIn(top, seen, maxDistinct, fingerprint, score, sure, firstAt, lastAt, sample)
  local replaced
  if redis.call('ZSCORE', top, fingerprint) then
    local stored = redis.call('HGET', seen, fingerprint) or ''
    local before, from, to, text = string.match(stored, '^(%d+) (%d+) (%d+) (.*)$')
    if before then
      sure = string.format('%.0f', before + sure)
      sample = text
      if tonumber(from) < tonumber(firstAt) then firstAt = from end
      if tonumber(to) > tonumber(lastAt) then lastAt = to end
    end
  else
    local missed, evicted = boundsOf(seen)
    if redis.call('ZCARD', top) >= maxDistinct then
      local smallest = redis.call('ZRANGE', top, 0, 0, 'WITHSCORES')
      replaced = smallest[1]
      evicted = math.max(evicted, tonumber(smallest[2]))
      setBounds(seen, missed, evicted)
    end
    redis.call('ZADD', top, string.format('%.0f', evicted), fingerprint)
  end
  redis.call('ZINCRBY', top, score, fingerprint)
  redis.call('HSET', seen, fingerprint, sure .. ' ' .. firstAt .. ' ' .. lastAt .. ' ' .. sample)
  -- This comes last: it may empty the keys, and while the slot moves to another node, a script fails at a key that is gone.
  if replaced then
    redis.call('ZREM', top, replaced)
    redis.call('HDEL', seen, replaced)
  end
end
