-- addFlow.lua - stores flows: of each flow, all jobs or none.
-- A job without children becomes ready or delayed. The others wait for their children. A repeated call changes nothing.
--
-- KEYS[1]  jobs         hash     id to header and payload
-- KEYS[2]  waiting      list     ids of ready jobs of priority 0
-- KEYS[3]  prioritised  zset     ids of the other ready jobs
-- KEYS[4]  delayed      zset     entry to the instant at which it is due, ms
-- KEYS[5]  wake         zset     markers that wake workers
-- KEYS[6]  producers    zset     producer to the sequence number of its last call
-- KEYS[7]  limits       hash     what keeps jobs from starting; `listened`
-- KEYS[8]  events       stream   recorded events
-- KEYS[9]  families     hash     the open and ended children of each parent, see `flow.lua`
-- KEYS[10] grouped      zset     ready jobs that have a group, see `groups.lua`
-- KEYS[11] turns        zset     groups in the order of their turns
-- KEYS[12] held         zset     group and id of each job that has one of its group's places
-- KEYS[13] groups       hash     settings of groups
-- KEYS[14] answered     string   sequence number and answers of this producer's last call
-- ARGV[1]  producer     string   9 characters
-- ARGV[2]  sequence     integer  number of this call; calls of one producer come in order
-- ARGV[3]  isNew        integer  1: this producer has not called for an hour; the oldest producers are dropped
-- ARGV[4]  plan         string   one line per job: its id, then a tab before each word of the job. `root`: the first job of a flow;
--                                `open=3`: it has three children; `ifNew`: the flow is only stored if there is no job of this id;
--                                `front`, `priority`, `group`, `delay` and `due` as in `add.lua`
-- ARGV[n]  blobs        string   header and payload of each
--
-- Reply     now, answers         server time, epoch ms, after a minus if the server has lost the data of the queue, and its layout. Then a line
--                                for each flow: the id of its first job, a tab, and `added`; or `ready`, a tab, and an id that a job has
local jobs = KEYS[1]
local waiting = KEYS[2]
local prioritised = KEYS[3]
local delayed = KEYS[4]
local wake = KEYS[5]
local producers = KEYS[6]
local limits = KEYS[7]
local events = KEYS[8]
local families = KEYS[9]
local grouped = KEYS[10]
local turns = KEYS[11]
local held = KEYS[12]
local groups = KEYS[13]
local answered = KEYS[14]
local producer = ARGV[1]
local sequence = ARGV[2]
local isNew = ARGV[3]
local plan = ARGV[4]
local blobs = { unpack(ARGV, 5) }

-- Libraries

failOnOtherType(waiting, prioritised, delayed, wake, families, answered)
joinGroups(true, grouped, turns, held, groups)
listen(limits)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local isLost = redis.call('HLEN', jobs) == 0 and isNew ~= '1' and redis.call('ZCARD', producers) == 0
if redis.call('ZADD', producers, 'GT', 'CH', sequence, producer) == 0 then
  return now .. (string.match(redis.call('GET', answered) or '', '^' .. sequence .. '(\n.*)') or '')
end
if isNew == '1' or isLost then
  redis.call('PEXPIRE', producers, 86400000)
  redis.call('ZREMRANGEBYRANK', producers, 0, -10001)
end

local flows, added, answers = {}, {}, ''
for _, job in ipairs(readPlan(plan, blobs)) do
  if job.root then flows[#flows + 1] = {} end
  table.insert(flows[#flows], job)
end
local list = {}
for _, flow in ipairs(flows) do
  local taken = takenOf(jobs, flow, added)
  answers = answers .. '\n' .. flow[1].id .. '\t' .. (taken and 'ready\t' .. taken or 'added')
  for _, job in ipairs(taken and {} or flow) do
    added[job.id] = true
    list[#list + 1] = job
  end
end
storeJobs(jobs, waiting, prioritised, delayed, wake, families, groups, list, now)
turnGroups(wake)
redis.call('SET', answered, sequence .. answers, 'PX', 600000)
closeGroups()
recordEvents(events)
return (isLost and '-' or '') .. now .. answers
