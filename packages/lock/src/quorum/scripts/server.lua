-- server.lua - the identity and age of a server, for a client that has connected since it last asked.
--
-- Defines serverFacts

-- Returns its run id and its age: `id ageMs`, `-` if the user may not run INFO, empty if it is not asked for. Also returns the age as
-- a number, which is infinite if it is not known.
local function serverFacts(isAsked)
  if isAsked ~= '1' then return '', math.huge end
  local info = redis.pcall('INFO', 'server')
  if type(info) == 'table' then return '-', math.huge end
  local id = string.match(info, '\nrun_id:(%w+)')
  local seconds = string.match(info, '\nuptime_in_seconds:(%d+)')
  if not id or not seconds then return '-', math.huge end
  -- The difference of two whole seconds may be one second too large.
  local ageMs = math.max(0, tonumber(seconds) - 1) * 1000
  return id .. ' ' .. string.format('%.0f', ageMs), ageMs
end
