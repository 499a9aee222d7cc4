-- unique.lua - finds the job that has a key.
-- `unique` has for each key `id until before`: its last job; the instant until which the key is taken in any case, ms, or 0; and the job
-- whose end that one waits for, or nothing.
--
-- Defines holderOf, withWord, dropUnused

local function isAlive(jobs, dead, id)
  return redis.call('HEXISTS', jobs, id) == 1 and not redis.call('ZSCORE', dead, id)
end

-- The record of a key, and as `id` the job that has it: neither done, removed nor dead. `hasFormer`: nor is the job before.
local function holderOf(unique, jobs, dead, key)
  local last, till, before = string.match(redis.call('HGET', unique, key) or '! 0 ', '^(%S+) (%d+) (%S*)$')
  local held = { last = last, till = tonumber(till), before = before, hasFormer = isAlive(jobs, dead, before) }
  held.id = isAlive(jobs, dead, last) and last or held.hasFormer and before
  return held
end

-- The blob with another word of this letter in its header, or without one.
local function withWord(blob, letter, word)
  local head, words, payload = string.match(blob, '^(%S+ %S+)([^\n]*)(\n.*)$')
  return head .. word .. string.gsub(words, ' ' .. letter .. '%S+', '', 1) .. payload
end

-- Deletes keys that are not taken, out of so many random ones. With two for each add, about as many stay as are taken.
local function dropUnused(unique, jobs, dead, count, now)
  for _, key in ipairs(redis.call('HRANDFIELD', unique, -count)) do
    local held = holderOf(unique, jobs, dead, key)
    if not held.id and held.till <= now then redis.call('HDEL', unique, key) end
  end
end
