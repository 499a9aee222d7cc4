-- noGroups.lua - replaces `groups.lua` in scripts of queues that never had a job of a group.
-- These scripts are shorter and faster. After the first such job, `groups` exists. Then they change nothing, and the caller runs the others.
--
-- Defines inTurn, joinGroups, expectGroups, haltGroup, vacate, enterGroups, settlePlace, tendGroups, withGroups, groupShare, beginGroups, turnGroups, closeGroups

local inTurn = {}

-- Call this before the first write.
local function joinGroups(mayExist, grouped, turns, held, groups)
  if mayExist and redis.call('EXISTS', grouped, turns, held, groups) > 0 then error('KIT_GROUPS') end
end

local function enterGroups(entries)
  return entries
end

local function withGroups(_, wanted, firstReady)
  return firstReady(wanted)
end

local function groupShare()
  return 0
end

local function nothing() end
local expectGroups, haltGroup, vacate, settlePlace, tendGroups = nothing, nothing, nothing, nothing, nothing
local beginGroups, turnGroups, closeGroups = nothing, nothing, nothing
