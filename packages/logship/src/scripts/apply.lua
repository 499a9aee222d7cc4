-- apply.lua - applies a piece of the results of a large commit, once.
--
-- KEYS[1]   owner         hash   the record of the job or channel
-- KEYS[2]   pending       hash   id of a piece to its results, which are committed and not yet applied
-- KEYS[n]   targets       any    where results go
-- ARGV[1]  piece    string   id
--
-- Reply     {1}  applied, now or before
--           {5, fault}  a result cannot be applied; nothing was changed
local owner = KEYS[1]
local pending = KEYS[2]
local targets = KEYS
local piece = ARGV[1]

-- Libraries

local stored = redis.call('HGET', pending, piece)
if not stored then return { 1 } end
local results = cjson.decode(stored)[2]
local fault, made = checkResults(targets, 3, results)
if fault then return { 5, fault } end
applyResults(owner, made, targets, 3, results)
-- Comes last: it may empty the key.
redis.call('HDEL', pending, piece)
return { 1 }
