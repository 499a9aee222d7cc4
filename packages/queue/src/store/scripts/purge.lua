-- purge.lua - deletes a queue.
-- One step deletes its keys with fixed names. The server frees their memory in the background, so the step is short with many jobs.
--
-- KEYS[1]  jobs       hash    id to header and payload
-- KEYS[2]  leases     zset    take id and entry to the instant at which the lease ends, ms
-- KEYS[3]  schedules  hash    id to version, revision, runs left, and timing as JSON
-- KEYS[n]  others     any     the other keys of the queue
-- ARGV[1]  latest     string  server time in epoch ms, after which a late copy of this call changes nothing; empty: it only looks
--
-- Reply     {jobs, active, schedules, keys, now, done}  how many jobs it had, how many of them were active, its schedules, and its keys;
--           the server's time; 1 if they are deleted
local jobs = KEYS[1]
local leases = KEYS[2]
local schedules = KEYS[3]
local others = { unpack(KEYS, 4) }
local latest = tonumber(ARGV[1])

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local isWanted = latest and now <= latest
local reply = { redis.call('HLEN', jobs), redis.call('ZCARD', leases), redis.call('HLEN', schedules) }
reply[4] = redis.call('EXISTS', jobs, leases, schedules, unpack(others))
reply[5], reply[6] = now, isWanted and 1 or 0
if isWanted then redis.call('UNLINK', jobs, leases, schedules, unpack(others)) end
return reply
