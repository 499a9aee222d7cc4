-- events.lua - records events of the queue.
-- They are recorded while `limits` has the field `listened`, see `listen.lua`. An event is a line of `kind id facts` between tabs, see
-- `event.ts`; an entry of the stream has lines of about 4 KiB as its field `e`.
--
-- Defines listen, tell, nameOf, recordEvents

-- Where the events of this call go; false: nobody listens. Called before the first write.
local function listen(limits)
  return redis.call('HGET', limits, 'listened') and {}
end

local function tell(lines, ...)
  if lines then lines[#lines + 1] = table.concat({ ... }, '\t') end
end

-- The name in the header of a stored job, percent-encoded.
local function nameOf(blob)
  return string.match(blob, '^%S+ (%S+)')
end

-- Called when all else is written. An error is ignored: a listener does not keep jobs from their work. Nothing is recorded once the
-- stream has expired.
local function recordEvents(events, lines)
  local first, bytes = 1, 0
  for i = 1, lines and #lines or 0 do
    bytes = bytes + #lines[i]
    if bytes > 4000 or i == #lines then
      local entry = table.concat(lines, '\n', first, i)
      redis.pcall('XADD', events, 'NOMKSTREAM', 'MAXLEN', '~', 10000, '*', 'e', entry)
      first, bytes = i + 1, 0
    end
  end
end
