-- grant.lua - grants a free lock to the first living waiter.
--
-- Needs readClock, fenceMs, nextFence
-- Defines watchedEnd, ownerToken, grantNext, notifyNext, reserve
--
-- All inputs are parameters.
-- Usually the search ends within the first two waiters.
local firstPage = 4
local pageSize = 50
local mostPages = 20
local mostUnreachable = 200

-- The instant at which a waiter that received `msLeft` sends its next heartbeat; -1 has no end.
local function watchedEnd(now, msLeft)
  return msLeft == -1 and '9999999999999' or string.format('%.0f', now + math.max(msLeft, 0))
end

local function ownerToken(owner)
  return owner and string.match(owner, '^([^|]*)|')
end

-- Frees the lock and grants it to the first living waiter that can be notified. `present` is the set of tokens that receive the
-- grant by the reply of this call. `from` is the call that hands the lock on, kept with the fencing token: a release whose reply was
-- lost can be repeated. Returns the winner's token, or nil. The caller has checked the layout, and calls `notifier.flush()`
-- after its last write.
--
-- A waiter whose inbox has no subscriber is skipped and keeps its place. A waiter that cannot be notified polls, and is granted
-- the lock if its next heartbeat is soon. The search ends after mostUnreachable inboxes without a listener, or mostPages of the
-- queue; a waiter after these finds the lock free at its next heartbeat.
--
-- The next waiter must send a heartbeat when the winner's lease ends. It is notified of that end only if its own heartbeat
-- would be too late. `watched`, in its record, is the end that it last received.
--
-- All reads come before the first write, and no key is used after a write that may have removed it: in a slot that is moving,
-- the script would end there, after a part of its writes. The first write frees memory: Redis allows it at maxmemory, and then all
-- others.
local function grantNext(lease, fence, queue, waiters, notifier, from, present)
  local candidates = redis.call('ZRANGE', queue, 0, firstPage - 1)
  if #candidates == 0 then
    redis.call('DEL', lease)
    return nil
  end
  local records = redis.call('HMGET', waiters, unpack(candidates))
  local now, micros = readClock()
  local token = nextFence(redis.call('GET', fence), micros)

  local winner, winnerMs, winnerHolder, leaseEnd
  -- The waiters that leave the queue: the dead ones, and the winner.
  local gone = {}

  local function parse(record)
    local aliveUntil, watched, grantMs, inbox, holder = string.match(record or '', '^(%d+) (%d+) (%d+) (%S+) (.*)$')
    if aliveUntil and tonumber(aliveUntil) > now then return grantMs, inbox, holder, watched end
  end
  local function choose(head, grantMs, holder)
    winner, winnerMs, winnerHolder = head, grantMs, holder
    leaseEnd = string.format('%.0f', now + tonumber(grantMs))
    gone[#gone + 1] = head
  end
  -- Returns whether the search is over: the lock is granted, and the next waiter watches the new holder; or too many waiters
  -- are unreachable.
  local function offer(head, record)
    local grantMs, inbox, holder, watched = parse(record)
    if not grantMs then
      gone[#gone + 1] = head
    elseif winner then
      local looks = tonumber(watched) <= tonumber(leaseEnd) or inbox == '+'
      if looks or notifier.notify(inbox, head .. '\thead\t' .. leaseEnd) then return true end
    elseif inbox == '+' or (present and present[head]) or notifier.listens(inbox) then
      choose(head, grantMs, holder)
      notifier.notify(inbox, table.concat({ head, 'granted', leaseEnd, grantMs, token }, '\t'))
    end
    return notifier.unreachable >= mostUnreachable
  end

  local isOver = false
  local start, asked = 0, firstPage
  for _ = 1, mostPages do
    for i, candidate in ipairs(candidates) do
      isOver = offer(candidate, records[i])
      if isOver then break end
    end
    if isOver or #candidates < asked then break end
    start, asked = start + asked, pageSize
    candidates = redis.call('ZRANGE', queue, start, start + pageSize - 1)
    if #candidates == 0 then break end
    records = redis.call('HMGET', waiters, unpack(candidates))
  end
  if not winner and present then
    local first, firstRank
    for head in pairs(present) do
      local rank = redis.call('ZRANK', queue, head)
      if rank and (not firstRank or rank < firstRank) then first, firstRank = head, rank end
    end
    local grantMs, _, holder = parse(first and redis.call('HGET', waiters, first))
    if grantMs then choose(first, grantMs, holder) end
  end
  if #gone > 0 then
    redis.call('ZREM', queue, unpack(gone))
    redis.call('HDEL', waiters, unpack(gone))
  end
  if winner then
    redis.call('SET', fence, '1:' .. token .. ':' .. from, 'PX', fenceMs)
    redis.call('SET', lease, winner .. '|' .. winnerHolder, 'PX', winnerMs)
  else
    redis.call('DEL', lease)
  end
  return winner
end

-- The first living waiter that can be notified, other than `leaving`, looks again at `ending`, if it would look later.
local function notifyNext(queue, waiters, notifier, ending, now, leaving)
  local candidates = redis.call('ZRANGE', queue, 0, pageSize - 1)
  local records = #candidates > 0 and redis.call('HMGET', waiters, unpack(candidates)) or {}
  for i, head in ipairs(candidates) do
    local aliveUntil, watched, inbox = string.match(records[i] or '', '^(%d+) (%d+) %d+ (%S+) ')
    if head ~= leaving and aliveUntil and tonumber(aliveUntil) > now then
      local looks = tonumber(watched) <= ending or inbox == '+'
      if looks or notifier.notify(inbox, head .. '\thead\t' .. string.format('%.0f', ending)) then break end
    end
  end
end

-- Keeps the lock taken for another `kept.ms` under the label `kept.holder`, without a token that could renew or release it, and
-- stores `kept.fence` for `kept.keptFor`. The first living waiter that can be notified looks again at that end, if it would look later.
local function reserve(lease, fence, queue, waiters, notifier, kept, now)
  notifyNext(queue, waiters, notifier, now + kept.ms, now, nil)
  -- At maxmemory, Redis allows the writes after a write that needs no memory.
  redis.call('PEXPIRE', lease, kept.ms)
  redis.call('SET', lease, '|' .. kept.holder, 'PX', kept.ms)
  redis.call('SET', fence, kept.fence, 'PX', kept.keptFor)
end
