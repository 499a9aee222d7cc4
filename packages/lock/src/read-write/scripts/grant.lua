-- grant.lua - the leases of a read/write lock, its queue, and the grants to the first waiters.
--
-- Needs allowLeaseWrites, failOnOtherType, newNotifier, fenceMs, nextFence, keptMs, someDead
-- Defines modeOf, inMode, parseWaiter, storedWaiter, openLock
--
-- All inputs are parameters. A record, `mode|token|holder`, names a caller in the leases and in the queue; the mode is `r` or `w`.
-- Usually the search ends within the first two waiters.
local firstPage = 4
local pageSize = 50
local mostPages = 40
local mostGranted = 1000
local mostUnreachable = 200
local mostPurged = 100
-- A writer that keeps readers waiting is asked for a heartbeat, once in askMs. It counts as silent if it sends none for silentMs.
local askMs = 1000
local silentMs = 2000

local function modeOf(record) return string.sub(record, 1, 1) end
local function inMode(mode, record) return mode .. string.sub(record, 2) end
local function tokenOf(record) return string.match(record, '^.|([^|]*)|') end
-- Instants are text, because Lua drops digits when it prints numbers of this size.
local function text(instant) return string.format('%.0f', instant) end

-- A waiter as it is stored: `aliveUntil watched grantMs inbox asked`. `asked` is the instant at which it was last asked for a
-- heartbeat, and negative after it has sent one. A waiter that was never asked has none.
local function parseWaiter(stored)
  local aliveUntil, watched, grantMs, inbox, asked = string.match(stored or '', '^(%d+) (%d+) (%d+) (%S+) ?(%-?%d*)$')
  if not aliveUntil then return nil end
  return { aliveUntil = tonumber(aliveUntil), watched = tonumber(watched), grantMs = grantMs, inbox = inbox, asked = tonumber(asked) or 0 }
end
local function storedWaiter(waiter)
  local parts = { text(waiter.aliveUntil), text(waiter.watched), waiter.grantMs, waiter.inbox }
  if waiter.asked ~= 0 then parts[5] = text(waiter.asked) end
  return table.concat(parts, ' ')
end

-- The state of one lock for this call; nil for an unknown layout. `call` has
--
-- now, micros, shared  the server's milliseconds and microseconds; whether subscribers may be on another node
-- present              the set of records that receive a grant by the reply of this call
-- leaving              a record that gives up its lease or its place in this call
-- inbox, isNew         of a reader, or nil: it asks a writer before it for a heartbeat, unless they share the inbox; whether it
--                      is about to queue
-- aliveMs              for how long a heartbeat keeps a waiter alive; nil if the caller has none
--
-- The lease that ends last gives the mode: a writer holds the lock alone, so a lease that has not ended is the writer's or one of
-- many readers'. Ended leases are purged a few at a time.
--
-- The queue is served in order. Readers at its head are granted together, until a writer is next. A writer is granted when no
-- lease is left. No call passes a living waiter that must wait for leases, even if it cannot be notified. Only a silent waiter is
-- passed, and keeps its place: a dead writer does not delay the readers after it.
--
-- All reads come before the first write, and no key is used after a write that may have removed it: in a slot that is moving,
-- the script would end there, after a part of its writes. Only `write` writes; the caller publishes at its end.
local function openLock(keys, call)
  local leases, fence, queue, waiters = unpack(keys)
  local now = call.now
  local stored = redis.call('GET', fence)
  local nextToken = nextFence(stored, call.micros)
  if not nextToken then return nil end
  local waiting = redis.call('ZCARD', queue)
  failOnOtherType({ hash = waiters })
  local latest = redis.call('ZRANGE', leases, -2, -1, 'WITHSCORES')
  local notifier = newNotifier(call.shared)
  -- `mode` is nil while the lock is free. `isBlocked`: a waiter comes before every call that does not wait. `isGone` has the
  -- records that leave the queue in this call, including those that are granted.
  local self = { mode = nil, record = '', leaseEnd = now, isBlocked = false, waiting = waiting, isGone = {} }
  for i = 1, #latest, 2 do
    local record, ending = latest[i], tonumber(latest[i + 1])
    if record ~= call.leaving and ending > now then
      self.mode, self.record, self.leaseEnd = modeOf(record), record, ending
    end
  end

  local added, ends, gone, written = {}, {}, {}, {}
  local newFence, lookAt
  local granted = 0
  local function leaveQueue(record)
    if self.isGone[record] then return end
    self.isGone[record] = true
    gone[#gone + 1] = record
    self.waiting = self.waiting - 1
  end
  -- Stores a lease that ends at this instant.
  local function hold(record, ending)
    added[#added + 1] = text(ending)
    added[#added + 1] = record
    ends[record] = ending
    if not self.mode or ending > self.leaseEnd then self.record, self.leaseEnd = record, ending end
    self.mode = modeOf(record)
  end
  -- Returns whether the lock's state permits a lease of this mode.
  local function permits(mode) return not self.mode or (mode == 'r' and self.mode == 'r') end
  -- Grants a lease from now on.
  local function take(record, ms)
    if modeOf(record) == 'w' then newFence = nextToken end
    hold(record, now + ms)
    granted = granted + 1
  end

  -- Inboxes of silent waiters, and when the waiters were asked.
  local silent = {}
  -- Whether a waiter was asked for a heartbeat, and has sent none. All waiters of an inbox send theirs together. The number of
  -- listeners of an inbox does not decide: while its client reconnects, a living waiter has none.
  local function isSilent(waiter)
    local inbox, asked = waiter.inbox, waiter.asked
    if asked > 0 and asked + silentMs <= now then
      if #inbox > 1 then silent[inbox] = asked end
      return true
    end
    return silent[inbox] ~= nil and waiter.aliveUntil - (call.aliveMs or 0) < silent[inbox]
  end
  local function store(record, waiter)
    written[#written + 1] = record
    written[#written + 1] = storedWaiter(waiter)
  end
  -- Asks the writer that keeps the caller waiting for a heartbeat. One caller asks, and looks again for all callers.
  local function ask(record, waiter)
    local inbox, asked = waiter.inbox, waiter.asked
    if not call.inbox or (inbox == call.inbox and #inbox > 1) then return end
    if asked > 0 then
      self.looksAt = asked + silentMs
    elseif askMs - asked <= now then
      notifier.notify(inbox, tokenOf(record) .. '\thead\t' .. text(now))
      waiter.asked = now
      store(record, waiter)
      self.looksAt = now + askMs
    elseif call.isNew then
      -- The caller that asked may be gone by then.
      self.looksAt = askMs - asked + 100
    end
  end
  -- One waiter of the queue. Returns whether the search is over.
  local function offer(record, stored)
    local waiter = parseWaiter(stored)
    local isPresent = call.present[record]
    if not waiter or not (isPresent or waiter.aliveUntil > now) then
      leaveQueue(record)
      return false
    end
    if not isPresent and isSilent(waiter) then return false end
    local inbox, grantMs = waiter.inbox, waiter.grantMs
    local mayHold = permits(modeOf(record))
    if mayHold and not lookAt and granted < mostGranted then
      if isPresent or inbox == '+' or notifier.listens(inbox) then
        leaveQueue(record)
        take(record, tonumber(grantMs))
        local fencingToken = modeOf(record) == 'w' and nextToken or ''
        local parts = { tokenOf(record), 'granted', text(now + grantMs), grantMs, fencingToken }
        if not isPresent then notifier.notify(inbox, table.concat(parts, '\t')) end
      end
    else
      -- This waiter must wait, and so must all after it. The first of them that can be notified looks when the lock may be free:
      -- immediately, if only the bound of this call keeps it waiting.
      if not self.isBlocked and not mayHold and not isPresent and self.mode == 'r' then ask(record, waiter) end
      lookAt = lookAt or (mayHold and now or self.leaseEnd)
      self.isBlocked = true
      if isPresent or inbox == '+' or inbox == '-' or waiter.watched <= lookAt then return true end
      if notifier.notify(inbox, tokenOf(record) .. '\thead\t' .. text(lookAt)) then
        waiter.watched = lookAt
        store(record, waiter)
        return true
      end
    end
    return notifier.unreachable >= mostUnreachable
  end

  -- Grants to the first waiters, while the lock's state permits.
  --
  -- A waiter whose turn has come, and whose inbox has no subscriber, is skipped and keeps its place. The search ends after
  -- mostUnreachable inboxes without a listener, or mostPages of the queue. While the lock is held, other calls then wait after
  -- the waiters that were not searched. While it is free, the first present waiter is granted.
  function self.grant()
    local start, asked = 0, firstPage
    local isOver = waiting == 0
    local isSearched = isOver
    for _ = 1, mostPages do
      if isOver then break end
      local page = redis.call('ZRANGE', queue, start, start + asked - 1)
      local stands = #page > 0 and redis.call('HMGET', waiters, unpack(page)) or {}
      for i, record in ipairs(page) do
        isOver = record ~= call.leaving and offer(record, stands[i])
        if isOver then break end
      end
      isSearched = not isOver and #page < asked
      start, asked, isOver = start + asked, pageSize, isOver or isSearched
    end
    if isSearched or self.isBlocked then return end
    self.isBlocked = self.mode ~= nil
    local first, firstRank
    for record in pairs(self.mode and {} or call.present) do
      local rank = redis.call('ZRANK', queue, record)
      if rank and (not firstRank or rank < firstRank) then first, firstRank = record, rank end
    end
    local waiter = parseWaiter(first and redis.call('HGET', waiters, first) or nil)
    if waiter then
      leaveQueue(first)
      take(first, tonumber(waiter.grantMs))
    end
  end
  -- When the lease of a record ends, in either mode. Nil: it has none.
  function self.endOf(record)
    for _, each in ipairs({ inMode('r', record), inMode('w', record) }) do
      local ending = ends[each] or tonumber(redis.call('ZSCORE', leases, each) or nil)
      if ending and ending > now then return ending, each end
    end
  end
  -- Whether a call that does not wait yet may hold the lock now. Call `grant` first.
  function self.admits(record) return permits(modeOf(record)) and not self.isBlocked end
  -- Grants to a call that `admits` has let in.
  function self.take(record, ms, isWaiting)
    if isWaiting then leaveQueue(record) end
    take(record, ms)
  end
  self.hold = hold
  self.leaveQueue = leaveQueue
  -- The fencing token of the lease with this record: empty for a reader. A token that was evicted, or lost with the data, is created again.
  function self.fencingTokenOf(record)
    if modeOf(record) == 'r' then return '' end
    if newFence then return newFence end
    local last = string.match(stored or '', '^1:(%d+)')
    if not last then newFence = nextToken end
    return last or nextToken
  end
  -- Stores and returns the next fencing token.
  function self.nextFencingToken()
    newFence = nextToken
    return nextToken
  end
  -- Milliseconds to the latest end of the leases; -2: the lock is free.
  function self.msLeft() return self.mode and self.leaseEnd - now or -2 end
  -- Milliseconds until the caller looks again: at the latest end, or earlier after a waiter was asked.
  function self.lookMs() return math.min(self.msLeft(), (self.looksAt or math.huge) - now) end
  -- The instant at which a waiter that receives `msLeft` looks again.
  function self.watchedEnd() return self.leaseEnd end
  -- Drops dead waiters of a sample, if the queue is full.
  function self.purgeWaiters()
    for _, record in ipairs(someDead(waiters, now)) do
      if redis.call('ZSCORE', queue, record) then leaveQueue(record) end
    end
  end
  -- Writes the changes of this call. `stands`: rows of waiters to store; `aliveMs`: for how long they are kept; `joining`: a
  -- record that joins the queue; `isAcquire`: at maxmemory nothing is written, and the call is refused; `keepMs`: how long the
  -- token is kept if the lock is free afterwards, empty or nil to change nothing.
  function self.write(change)
    if not change.isAcquire then allowLeaseWrites(leases) end
    -- Readers have no fencing token, but the layout is stored with it.
    if newFence or (#added > 0 and not stored) then redis.call('SET', fence, '1:' .. (newFence or '0'), 'PX', fenceMs) end
    if stored and not self.mode and (change.keepMs or '') ~= '' then
      redis.call('PEXPIRE', fence, keptMs(stored, call.micros, change.keepMs))
    end
    if change.joining then redis.call('ZADD', queue, redis.call('HINCRBY', waiters, '#', 1), change.joining) end
    for _, part in ipairs(change.stands or {}) do
      written[#written + 1] = part
    end
    if #written > 0 then redis.call('HSET', waiters, unpack(written)) end
    if change.aliveMs then
      redis.call('PEXPIRE', queue, change.aliveMs + 1000)
      redis.call('PEXPIRE', waiters, change.aliveMs + 1000)
    end
    if #gone > 0 then
      redis.call('ZREM', queue, unpack(gone))
      redis.call('HDEL', waiters, unpack(gone))
    end
    if #added > 0 then
      redis.call('ZADD', leases, unpack(added))
      local lifeMs = self.leaseEnd - now + 1000
      if redis.call('PTTL', leases) < lifeMs then redis.call('PEXPIRE', leases, lifeMs) end
    end
    local removed = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, mostPurged)
    removed[#removed + 1] = call.leaving
    if #removed > 0 then redis.call('ZREM', leases, unpack(removed)) end
  end
  self.publish = notifier.flush
  return self
end
