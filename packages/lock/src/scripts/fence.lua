-- fence.lua - the fencing tokens, and the layout that is stored with them.
--
-- Defines fenceMs, layoutError, nextFence, keptMs
--
-- All inputs are parameters.
local fenceMs = 604800000
-- Far beyond any clock, and exact as a number: this plus two would be 2^53.
local largestFence = 9007199254740990

local layoutError = 'KIT_LAYOUT the lock was written by a newer version, or is damaged'

-- The fencing token after `last`, the stored token. It is always larger, even if the clock went back. It is text, because Lua drops
-- digits when it prints numbers of this size. Nil for an unknown layout, and if someone set a token so high that the next one would
-- be the same number.
local function nextFence(last, micros)
  if last then
    local layout, previous = string.match(last .. ':', '^(%d+):(%d+):')
    if layout ~= '1' or tonumber(previous) > largestFence then return nil end
    micros = math.max(micros, tonumber(previous) + 1)
  end
  return string.format('%.0f', micros)
end

-- How long the stored token of an unused name is kept: until the clock is `keepMs` ahead of the token and of now. So if the clock
-- went back after the grant, the token is kept until the clock has passed it.
local function keptMs(stored, micros, keepMs)
  local last = tonumber(string.match(stored, '^1:(%d+)'))
  return string.format('%.0f', keepMs + math.ceil(math.max(0, last - micros) / 1000))
end
