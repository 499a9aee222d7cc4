-- grant.lua - a semaphore for one call: its limits, and the grants to its waiters.
--
-- Needs newNotifier, allowLeaseWrites, permitRecordParts, firstEnd, addCounts, metaMs, addSearch
-- Defines layoutError, openSemaphore
--
-- All inputs are parameters.
local layoutError = 'KIT_LAYOUT the semaphore was written by a newer version, or is damaged'
local mostTurns = 1000
local mostUnreachable = 200
local mostEvaluated = 500
local evaluatingMs = 1000
-- No row has this name, and every row that is searched for sorts before it.
local pin = '~'

-- Counts and limits have at most fifteen digits. Someone else wrote any other value: the result is nil.
local function numberIn(text) return #text < 16 and string.match(text, '^%d+$') and tonumber(text) or nil end

-- The state of one semaphore for this call; nil for an unknown layout, and for limits that are not numbers. `call`
-- has
--
-- now, shared        the server's milliseconds; whether subscribers may be on another node
-- present            the permit records that receive a grant by the reply of this call, each with the length of its lease, or
--                    true for the length in its record
-- tenant             of an acquire: its own ended permits are dropped before others', if they could take its room
-- limit, perTenant   the limits to store if there are none yet. Without `limit` none are stored, and nothing is granted
--
-- counts.lua and search.lua add the permits and the waiters. Every key is read before the first write, so a key of another type
-- never leaves half of a change.
--
-- The caller calls `finish` after its last write.
local function openSemaphore(keys, call)
  local permits, meta, queue, ready, waiters = unpack(keys)
  local now = call.now
  local layout, limit, perTenant, evaluatingUntil, changedAt =
    unpack(redis.call('HMGET', meta, 'layout', 'permits', 'perTenant', 'evaluating', 'changedAt'))
  if layout and layout ~= '1' then return nil end
  if (limit and not numberIn(limit)) or (perTenant and not numberIn(perTenant)) then return nil end
  local held = redis.call('ZCOUNT', permits, firstEnd, '+inf')
  local isUnqueued = redis.call('ZCARD', queue) == 0
  local isReadyNew = redis.call('ZCARD', ready) == 0
  local records = redis.call('HLEN', waiters)
  local isAlone = isUnqueued and records <= 1
  limit = tonumber(limit or call.limit)
  perTenant = tonumber(perTenant or nil)
  local notifier = newNotifier(call.shared)
  local self = { isUnqueued = isUnqueued }

  -- In a slot that is moving, a key whose last row was removed cannot be used again: the script would end there, after a part of
  -- its writes. So before the first removal, each key gets a row that stays until the end. A script starts in such a slot only
  -- if all its keys exist. On a single server, no slot moves.
  local mayMove = held > 0 and not isUnqueued and not isReadyNew
  local isPinned = false
  function self.beforeRemoval()
    if isPinned or not mayMove then return end
    mayMove = notifier.isShared()
    if not mayMove then return end
    isPinned = true
    allowLeaseWrites(ready)
    redis.call('ZADD', queue, 0, pin)
    redis.call('ZADD', ready, '+inf', pin)
    redis.call('ZADD', permits, '+inf', pin)
  end
  function self.finish()
    if isPinned then
      for _, key in ipairs({ queue, ready, permits }) do
        redis.call('ZREM', key, pin)
      end
    end
    notifier.flush()
  end

  if not layout and limit then
    perTenant = tonumber(call.perTenant)
    redis.call('HSET', meta, 'layout', '1', 'permits', string.format('%.0f', limit))
    if perTenant then redis.call('HSET', meta, 'perTenant', string.format('%.0f', perTenant)) end
    redis.call('PEXPIRE', meta, metaMs)
  end
  self.limit, self.perTenant, self.changedAt = limit, perTenant, tonumber(changedAt or nil) or 0
  addCounts(self, permits, call, held)
  addSearch(self, keys, call, notifier, records)
  -- Whether there may be room although no waiter was notified: the limits were lost, or all permits ended with their key. The call
  -- that finds this grants, because the next call will not find it.
  self.isRegained = limit and ((not layout and held > 0) or (held == 0 and not isUnqueued))
  -- Takes a permit that fits, without a place in the queue, so a single caller leaves no ticket. Returns when the permit ends. Nil:
  -- there is a waiter, or nothing is granted now.
  function self.takeAlone(permitRecord, ms, hasShrunk)
    if not isAlone or (tonumber(evaluatingUntil or 0) or 0) > now then return nil end
    if not hasShrunk then allowLeaseWrites(ready) end
    local _, weight, tenant = permitRecordParts(permitRecord)
    self.take({ permitRecord = permitRecord, weight = weight, tenant = tenant }, ms)
    redis.call('PEXPIRE', meta, metaMs)
    return now + ms
  end
  -- Puts waiting tenants in their places, starting here, some of them in each call. Returns where to continue. Nil: all are done.
  local function evaluateFrom(start)
    for _ = 1, mostEvaluated do
      local row = redis.call('ZRANGEBYLEX', queue, start, '(|', 'LIMIT', 0, 1)[1]
      if not row then return nil end
      local tenant = string.match(row, '^%S*')
      self.reevaluate(tenant)
      start = '[' .. tenant .. '!'
    end
    return start
  end
  -- The same over several calls. Between them nothing is granted, because a tenant that is not re-evaluated yet may be next.
  -- If the caller does not continue, this state lasts evaluatingMs, and each tenant is re-evaluated by its next heartbeat.
  function self.reevaluateFrom(start)
    local rest = evaluateFrom(start)
    evaluatingUntil = rest and now + evaluatingMs
    if rest then
      redis.call('HSET', meta, 'evaluating', string.format('%.0f', evaluatingUntil))
    else
      redis.call('HDEL', meta, 'evaluating')
    end
    return rest
  end
  if self.isRegained then evaluateFrom('-') end
  -- Changes the limits of this call. Returns whether all tenants must be re-evaluated: a higher limit only gives waiters
  -- room, but after a pause some may be too heavy.
  function self.resize(most, mostPerTenant)
    local isHigher = self.limit > 0 and most >= self.limit and mostPerTenant == self.perTenant
    self.limit, self.perTenant = most, mostPerTenant
    self.forgetFirsts()
    return not isHigher
  end
  -- Whether a waiter that does not fit also stops the waiters after it. While permits are free, a waiter whose inbox has no
  -- subscriber does not: it may be dead. A waiter that polls has no inbox, and counts as alive until it misses its heartbeats.
  local function mayBlock(waiter)
    local inbox = waiter.inbox
    if self.used >= self.limit or call.present[waiter.permitRecord] or inbox == '+' or inbox == '-' then return true end
    return notifier.listens(inbox)
  end
  -- Grants, in order, while the next waiter fits. Returns whether there may be more to grant than one call does.
  --
  -- `hasShrunk`: the caller has made a write that frees memory, after which Redis allows all other writes at maxmemory. Otherwise
  -- this function makes one that removes nothing.
  function self.grant(hasShrunk)
    if not hasShrunk then allowLeaseWrites(ready) end
    local granted = {}
    local turns = 0
    -- If nothing is free, no waiter has to be found. In a group, the first waiter may have changed.
    local isEvaluating = (tonumber(evaluatingUntil or 0) or 0) > now
    local isOver = not self.limit or isEvaluating or (self.used >= self.limit and not self.perTenant)
    while not isOver and turns < mostTurns do
      turns = turns + 1
      local tenant, score = unpack(redis.call('ZRANGE', ready, 0, 0, 'WITHSCORES'))
      local isNobody = not tenant or tenant == pin
      local waiter = not isNobody and self.firstOf(tenant)
      if isNobody then
        isOver = true
      elseif not waiter or tonumber(waiter.score) ~= tonumber(score) or not self.hasRoom(waiter.weight, tenant) then
        self.reevaluate(tenant)
      elseif self.used + waiter.weight > self.limit and mayBlock(waiter) then
        -- The waiter now waits for the next end, if it did not before.
        self.watch(waiter)
        isOver = true
      else
        local ms = tonumber(waiter.grantMs)
        local isPresent = call.present[waiter.permitRecord]
        if type(isPresent) == 'number' then ms = isPresent end
        local fits = self.used + waiter.weight <= self.limit
        if fits and (isPresent or waiter.inbox == '+' or notifier.listens(waiter.inbox)) then
          self.leaveQueue(waiter)
          self.take(waiter, ms)
          if not isPresent then
            local parts = { waiter.token, 'granted', string.format('%.0f', now + ms), ms }
            notifier.notify(waiter.inbox, table.concat(parts, '\t'))
          end
          granted[tenant] = true
          isOver = self.used >= self.limit and not self.perTenant
        else
          self.suspend(waiter)
          isOver = notifier.unreachable >= mostUnreachable
        end
        self.reevaluate(tenant)
      end
    end
    -- The next waiters look when the new permits end, unless they look sooner.
    for each in pairs(granted) do
      self.watch(self.firstOf(each))
    end
    return turns >= mostTurns or notifier.unreachable >= mostUnreachable
  end
  return self
end
