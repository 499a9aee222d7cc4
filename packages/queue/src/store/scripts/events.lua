-- events.lua - records events of the queue.
-- They are recorded while `limits` has the field `listened`, see `listen.lua`. An event is a line of `kind id facts` between tabs, see
-- `event.ts`; an entry of the stream has lines of about 4 KiB as its field `e`.
--
-- Defines lines, listen, tell, recordEvents

-- The events of this call. False: there is no reader.
local lines

-- Call this before the first write.
local function listen(limits)
  lines = redis.call('HGET', limits, 'listened') and {}
end

local function tell(...)
  if lines then lines[#lines + 1] = table.concat({ ... }, '\t') end
end

-- Call this after all other writes. An error is ignored: events never stop jobs. Nothing is recorded after the stream has expired.
local function recordEvents(events)
  local entry = ''
  for i = 1, lines and #lines or 0 do
    entry = entry .. lines[i] .. '\n'
    if #entry > 4000 or i == #lines then
      redis.pcall('XADD', events, 'NOMKSTREAM', 'MAXLEN', '~', 10000, '*', 'e', entry)
      entry = ''
    end
  end
end
