-- groupPlaces.lua - reads which jobs have a place of a group. Changes nothing.
--
-- KEYS[1]  held   zset    group and id of each job that has one of its group's places
-- ARGV[1]  group  string  its name
--
-- Reply     ids  of up to 1,000 jobs
local held = KEYS[1]
local group = ARGV[1]

local ids = {}
local places = redis.call('ZRANGE', held, '[' .. group .. ' ', '(' .. group .. '!', 'BYLEX', 'LIMIT', 0, 1000)
for i, place in ipairs(places) do ids[i] = string.sub(place, #group + 2) end
return ids
