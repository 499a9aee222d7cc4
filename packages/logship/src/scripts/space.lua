-- space.lua - the accounting of a channel: used and reserved bytes, and the memory that a chunk counts for.
--
-- Defines heldBytes, raiseReservation, lowerReservation, spareFor, forgetNeed
--- Bytes of memory that a string of this size takes with its key: its size class in jemalloc (four for each power of two).
local function heldBytes(size)
  local need = math.max(size + 12, 128)
  local step = 32
  while step * 8 < need do step = step * 2 end
  return math.ceil(need / step) * step + 192
end

--- The caller takes a lease without bytes off `leases`, at its end: that may empty it, and while the slot moves to another node, a script fails at a
--- key that is gone.
local function lowerReservation(channel, lease, bytes)
  local have = tonumber(redis.call('HGET', channel, 'reserved ' .. lease) or '0')
  local less = math.min(have, bytes)
  if less == 0 then return end
  if less == have then
    redis.call('HDEL', channel, 'reserved ' .. lease)
  else
    redis.call('HINCRBY', channel, 'reserved ' .. lease, -less)
  end
  redis.call('HINCRBY', channel, 'reserved', -less)
end

--- Bytes that a file must leave to open files before it: receivers read files in order, so those behind could fill the channel for good. The first
--- open file gets an eighth of the limit, at least one chunk, since it is freed as it is read; a file that is passed through gets all that it takes.
local function spareFor(channel, files, live, file)
  local limit = tonumber(redis.call('HGET', channel, 'limit'))
  local first = redis.call('HGET', channel, 'firstOpen') or '0'
  local from = first
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', live, first, '+inf', 'LIMIT', 0, 100)) do
    local facts = redis.call('HMGET', files, id .. ':state', id .. ':unit')
    first = id
    if facts[1] == 'open' then
      if first ~= from then redis.call('HSET', channel, 'firstOpen', first) end
      if first == file then return 0 end
      local spare = math.max(math.floor(limit / 8), tonumber(facts[2] or '0'))
      for other, need in string.gmatch(redis.call('HGET', channel, 'needs') or '', '(%d+):(%d+)') do
        if tonumber(other) < tonumber(file) then spare = math.max(spare, tonumber(need)) end
      end
      return spare
    end
  end
  if first ~= from then redis.call('HSET', channel, 'firstOpen', first) end
  return 0
end

--- A file that was passed through is not open any more.
local function forgetNeed(channel, file)
  local needs = redis.call('HGET', channel, 'needs')
  if needs then redis.call('HSET', channel, 'needs', (string.gsub(needs, ' ' .. file .. ':%d+', ''))) end
end

--- Raises a reservation to `want` bytes as far as there is space, in steps of `unit`, leaving `spare` bytes free. Returns the reserved bytes.
local function raiseReservation(channel, leases, lease, want, unit, spare, now, leaseMs)
  local have = tonumber(redis.call('HGET', channel, 'reserved ' .. lease) or '0')
  local state = redis.call('HMGET', channel, 'limit', 'used', 'reserved')
  local space = tonumber(state[1]) - tonumber(state[2] or '0') - tonumber(state[3] or '0') - spare
  -- The rest of a chunk's reservation counts as well: otherwise a shipper could wait for bytes that it has reserved itself.
  local more = math.min(want - have, math.floor((have + space) / unit) * unit - have)
  if more > 0 then
    redis.call('HINCRBY', channel, 'reserved ' .. lease, more)
    redis.call('HINCRBY', channel, 'reserved', more)
    have = have + more
  end
  if have > 0 then redis.call('ZADD', leases, now + leaseMs, lease) end
  return have
end
