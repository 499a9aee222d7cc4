-- grant.lua - hands a free lock to the first waiter that lives.
--
-- Needs readClock, newNotifier
-- Defines fenceMs, layoutError, nextFence, watchedEnd, ownerToken, grantNext
--
-- All inputs are parameters.
local fenceMs = 604800000
-- Far beyond any clock, and exact as a number: the next but one would be 2^53.
local largestFence = 9007199254740990
-- Most often the first two are what is looked for.
local firstPage = 4
local pageSize = 50
local mostPages = 20
local mostUnreachable = 200

local layoutError = 'KIT_LAYOUT the lock was written by a newer version, or is damaged'

-- The fencing token after `last`, the stored one: always larger, also when the clock went back or the stored one was
-- lost. As text, since Lua prints numbers of this size with lost digits. Nil for a layout that is not ours, and for a token
-- that was set by hand so high that the next could not be told apart from it.
local function nextFence(last, micros)
  if last then
    local layout, previous = string.match(last .. ':', '^(%d+):(%d+):')
    if layout ~= '1' or tonumber(previous) > largestFence then return nil end
    micros = math.max(micros, tonumber(previous) + 1)
  end
  return string.format('%.0f', micros)
end

-- The instant at which a waiter that received `msLeft` looks by itself; -1 has no end.
local function watchedEnd(now, msLeft)
  return msLeft == -1 and '9999999999999' or string.format('%.0f', now + math.max(msLeft, 0))
end

local function ownerToken(owner)
  return owner and string.match(owner, '^([^|]*)|')
end

-- Frees the lock and grants it to the first of the queue that lives and can be notified. `present` is a set of tokens that
-- learn of it by the reply of this call. `from` is the call that hands it on, kept with the fencing token: a release
-- whose reply was lost can be repeated. Returns the winner's token, or nil. The caller has made sure of the layout.
--
-- A waiter that a PUBLISH does not reach is passed over and keeps its place. A waiter that cannot be notified polls, and is
-- granted the lock all the same if its next heartbeat is soon. The search ends after mostUnreachable inboxes without a
-- listener, or mostPages of the queue; a waiter behind them finds the lock free at its next heartbeat.
--
-- The next in the queue has to look when the winner's lease ends. It is notified of that end only if it would look too late
-- by itself: `watched`, in its record, is the end that was last sent to it.
--
-- Everything is read before the first write, which is a DEL: a write that shrinks is allowed at maxmemory, and after it
-- all others are. So no message can go out for a grant that then fails.
local function grantNext(lease, fence, queue, waiters, shared, from, present)
  local candidates = redis.call('ZRANGE', queue, 0, firstPage - 1)
  if #candidates == 0 then
    redis.call('DEL', lease)
    return nil
  end
  local records = redis.call('HMGET', waiters, unpack(candidates))
  local now, micros = readClock()
  local token = nextFence(redis.call('GET', fence), micros)
  redis.call('DEL', lease)

  local winner, leaseEnd
  local dead = {}
  local notify, unreachableCount = newNotifier(shared)

  local function parse(record)
    local aliveUntil, watched, grantMs, inbox, holder = string.match(record or '', '^(%d+) (%d+) (%d+) (%S+) (.*)$')
    if aliveUntil and tonumber(aliveUntil) > now then return grantMs, inbox, holder, watched end
  end
  local function endOf(grantMs)
    return string.format('%.0f', now + tonumber(grantMs))
  end
  local function grant(head, grantMs, holder)
    winner, leaseEnd = head, endOf(grantMs)
    redis.call('ZREM', queue, head)
    redis.call('HDEL', waiters, head)
    redis.call('SET', fence, '1:' .. token .. ':' .. from, 'PX', fenceMs)
    redis.call('SET', lease, head .. '|' .. holder, 'PX', grantMs)
  end
  -- Returns whether the search is over: granted, and the next in the queue watches the new holder; or too many cannot be reached.
  local function offer(head, record)
    local grantMs, inbox, holder, watched = parse(record)
    if not grantMs then
      dead[#dead + 1] = head
    elseif winner then
      local looks = tonumber(watched) <= tonumber(leaseEnd) or inbox == '+'
      if looks or notify(inbox, head .. '\thead\t' .. leaseEnd) then return true end
    else
      local isNotified = notify(inbox, table.concat({ head, 'granted', endOf(grantMs), grantMs, token }, '\t'))
      if isNotified or (present and present[head]) or inbox == '+' then grant(head, grantMs, holder) end
    end
    return unreachableCount() >= mostUnreachable
  end

  local isOver = false
  local seen, asked = 0, firstPage
  for _ = 1, mostPages do
    for i, candidate in ipairs(candidates) do
      isOver = offer(candidate, records[i])
      if isOver then break end
    end
    if isOver or #candidates < asked then break end
    seen, asked = seen + asked, pageSize
    -- The winner left the queue, so all behind it moved up.
    local start = seen - (winner and 1 or 0)
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
    if grantMs then grant(first, grantMs, holder) end
  end
  for _, head in ipairs(dead) do
    redis.call('ZREM', queue, head)
    redis.call('HDEL', waiters, head)
  end
  return winner
end
