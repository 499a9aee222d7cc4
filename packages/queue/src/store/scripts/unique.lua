-- unique.lua - finds the job that has a key.
-- `unique` has for each key `id until before`: its last job; the instant until which the key is taken in any case, ms, or 0; and the job
-- that must end before the last one, or nothing. White space and `%` in ids are percent-encoded. An unreadable record counts as none.
--
-- Needs optionOf, decoded
-- Defines keyRecord, holderOf, dropUnused

local function encoded(id)
  return (string.gsub(id, '[%s%%]', function(character) return string.format('%%%02X', string.byte(character)) end))
end

local function keyRecord(id, till, before)
  return string.format('%s %.0f %s', encoded(id), till, encoded(before))
end

-- A caller may use its own id again, for a job without this key. Producers never reuse generated ids, so for these no header is read.
local function isAlive(jobs, dead, id, key)
  if redis.call('HEXISTS', jobs, id) == 0 or redis.call('ZSCORE', dead, id) then return false end
  if #id == 14 and string.find(id, '^%w+%.[0-9a-z]+$') then return true end
  local blob = redis.call('HGET', jobs, id)
  return decoded(optionOf(blob, 'uniqueKey') or optionOf(blob, 'latestKey') or '') == key
end

-- The record of a key. Its `id` is the job that has the key: not done, removed or dead. `hasFormer`: the job before it is not, either.
local function holderOf(unique, jobs, dead, key)
  local last, till, before = string.match(redis.call('HGET', unique, key) or '', '^(%S+) (%d+) (%S*)$')
  last, before = decoded(last or '!'), decoded(before or '')
  local held = { last = last, till = tonumber(till) or 0, before = before, hasFormer = isAlive(jobs, dead, before, key) }
  held.id = isAlive(jobs, dead, last, key) and last or held.hasFormer and before
  return held
end

-- Looks at this number of random keys, and deletes those that are not taken. Two for each add keep the number of unused keys small.
local function dropUnused(unique, jobs, dead, count, now)
  for _, key in ipairs(redis.call('HRANDFIELD', unique, -count)) do
    local held = holderOf(unique, jobs, dead, key)
    if not held.id and held.till <= now then redis.call('HDEL', unique, key) end
  end
end
