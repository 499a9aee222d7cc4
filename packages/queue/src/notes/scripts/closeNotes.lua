-- closeNotes.lua - deletes the checkpoint of a job that is done.
-- Progress and lines stay for a while.
--
-- KEYS[1]  notes   hash     of the job
-- ARGV[1]  of      string   when the job was added, in base 36: another job of the same id has other notes
-- ARGV[2]  keepMs  integer  how long progress and lines stay; 0: not at all
--
-- Reply    1; 0 if they are not there, or of another job
local notes = KEYS[1]
local of = ARGV[1]
local keepMs = tonumber(ARGV[2])

if redis.call('HGET', notes, 'of') ~= of then return 0 end
redis.call('HDEL', notes, 'checkpoint')
redis.call('PEXPIRE', notes, keepMs)
return 1
