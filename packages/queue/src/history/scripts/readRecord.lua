-- readRecord.lua - reads the record of an ended job. Changes nothing.
--
-- KEYS[1]  kept     zset    id of an ended job to the instant of its end, ms
-- KEYS[2]  records  hash    id to its record
-- ARGV[1]  id       string  of the job
--
-- Reply     {at, record}  when it ended, as text in epoch ms, and its record; empty if there is none
local kept = KEYS[1]
local records = KEYS[2]
local id = ARGV[1]

local at, record = redis.call('ZSCORE', kept, id), redis.call('HGET', records, id)
if not at or not record then return { '', '' } end
return { at, record }
