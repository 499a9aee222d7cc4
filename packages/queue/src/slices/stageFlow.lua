-- stageFlow.lua - keeps a slice of a flow until all of its slices are there; see `startFlow.lua`.
-- A repeated call changes nothing.
--
-- KEYS[1]  jobs    hash     id to header and payload
-- KEYS[2]  staged  hash     slices of flows, see `startFlow.lua`
-- ARGV[1]  token   string   of the flow
-- ARGV[2]  number  integer  of the slice, from 0
-- ARGV[3]  root    string   the root's id if its caller chose it; else empty
-- ARGV[4]  slice   string   a line for each job, as in `plan` of `addFlow.lua`, with the word `bytes`; an empty line; their headers and
--                           payloads, one after the other
--
-- Reply     {unfinished, isTaken}  tokens of flows that have started, separated by blanks; 1 if a job has the root's id
local jobs = KEYS[1]
local staged = KEYS[2]
local token = ARGV[1]
local number = ARGV[2]
local root = ARGV[3]
local slice = ARGV[4]

local isTaken = root == '' and 0 or redis.call('HEXISTS', jobs, root)
local unfinished = redis.call('HGET', staged, '')
redis.call('HSET', staged, token .. '\t' .. number, slice)
if not unfinished then redis.call('PEXPIRE', staged, 600000) end
return { unfinished or '', isTaken }
