-- search.lua - the waiters: their places, and the first waiter of each tenant.
--
-- Needs someDead, permitRecordParts
-- Defines metaMs, addSearch
--
-- All inputs are parameters.
local metaMs = 604800000
local pageSize = 100
-- Later than the end of any permit.
local never = 9999999999999

-- Adds the waiters to `self`, the semaphore of this call, which already has its permits. `records`: how many fields `waiters` has.
--
-- The waiters of a tenant are in the queue in order of their scores. `ready` has the tenants that have room for their first waiter.
-- So the lowest score in `ready` is the next, and a full tenant delays no other tenant. A waiter that cannot be notified, and whose
-- next heartbeat is not soon, is suspended: it leaves the queue, and its next heartbeat returns it to its old place.
local function addSearch(self, keys, call, notifier, records)
  local permits, meta, queue, ready, waiters = unpack(keys)
  local now = call.now
  local isQueueNew = self.isUnqueued
  -- How many callers wait. The hash also has the last ticket.
  self.waiting = math.max(0, records - 1)
  -- The waiter of a permit record. Nil: there is none.
  local function parse(permitRecord, record)
    local aliveUntil, watched, score, grantMs, inbox = string.match(record or '', '^(%d+) (%d+) (%d+) (%d+) (%S+)$')
    if not aliveUntil then return nil end
    local waiter = { permitRecord = permitRecord, score = score, aliveUntil = aliveUntil, watched = watched, grantMs = grantMs, inbox = inbox }
    waiter.token, waiter.weight, waiter.tenant = permitRecordParts(permitRecord)
    return waiter
  end
  function self.waiterOf(permitRecord) return parse(permitRecord, redis.call('HGET', waiters, permitRecord)) end
  local function recordOf(waiter)
    return table.concat({ waiter.aliveUntil, waiter.watched, waiter.score, waiter.grantMs, waiter.inbox }, ' ')
  end
  local function write(waiter) redis.call('HSET', waiters, waiter.permitRecord, recordOf(waiter)) end
  local function rowOf(waiter)
    return waiter.tenant .. ' ' .. waiter.score .. ' ' .. waiter.permitRecord
  end
  local function suspendedRowOf(waiter)
    return '|' .. waiter.aliveUntil .. ' ' .. waiter.permitRecord
  end
  local function notifyToLook(waiter, instant)
    return notifier.notify(waiter.inbox, waiter.token .. '\thead\t' .. instant)
  end
  -- Whether the limits are below a weight: its waiter would wait for ever. A limit of 0 is a pause.
  function self.isTooHeavy(weight, tenant)
    if not self.limit then return false end
    local most = tenant == '' and self.limit or math.min(self.limit, self.perTenant or self.limit)
    return most > 0 and weight > most
  end
  -- The result of firstOf, until it changes. False: there is none.
  local firsts = {}
  function self.forgetFirsts() firsts = {} end
  -- The first living waiter of a tenant. Drops the dead waiters before it, and waiters that became too heavy when the limits were
  -- lowered: their next heartbeat reports them as unknown, so they acquire again, and are rejected.
  function self.firstOf(tenant)
    while firsts[tenant] == nil do
      local row = redis.call('ZRANGEBYLEX', queue, '[' .. tenant .. ' ', '(' .. tenant .. '!', 'LIMIT', 0, 1)[1]
      local permitRecord = row and string.match(row, '^%S* %d+ (.*)$')
      local waiter = permitRecord and self.waiterOf(permitRecord)
      if not row then
        firsts[tenant] = false
      elseif waiter and tonumber(waiter.aliveUntil) > now and not self.isTooHeavy(waiter.weight, tenant) then
        firsts[tenant] = waiter
      else
        self.beforeRemoval()
        redis.call('ZREM', queue, row)
        self.waiting = self.waiting - redis.call('HDEL', waiters, permitRecord or '')
        isQueueNew = true
        if waiter then notifyToLook(waiter, string.format('%.0f', now)) end
      end
    end
    return firsts[tenant]
  end
  -- Puts a tenant into `ready` by the score of its first waiter.
  function self.reevaluate(tenant)
    local waiter = self.firstOf(tenant)
    if waiter and self.hasRoom(waiter.weight, tenant) then
      if redis.call('ZADD', ready, waiter.score, tenant) == 1 then
        -- The key may be new.
        local ms = redis.call('PTTL', waiters)
        if ms > 0 then redis.call('PEXPIRE', ready, ms) end
      end
    else
      self.beforeRemoval()
      redis.call('ZREM', ready, tenant)
    end
  end
  function self.leaveQueue(waiter)
    self.beforeRemoval()
    redis.call('ZREM', queue, rowOf(waiter), suspendedRowOf(waiter))
    self.waiting = self.waiting - redis.call('HDEL', waiters, waiter.permitRecord)
    firsts[waiter.tenant] = nil
    -- This may have been the last row.
    isQueueNew = true
  end
  -- The waiter looks again when the next permit ends, if it would look later.
  function self.watch(waiter)
    local ending = self.nextEnd()
    if not waiter or not ending or tonumber(waiter.watched) <= ending then return end
    waiter.watched = string.format('%.0f', ending)
    if notifyToLook(waiter, waiter.watched) then write(waiter) end
  end
  -- Drops suspended waiters without a recent heartbeat.
  function self.purgeSuspended()
    local rows = redis.call('ZRANGEBYLEX', queue, '[|', '(|' .. string.format('%.0f', now), 'LIMIT', 0, pageSize)
    isQueueNew = isQueueNew or #rows > 0
    if #rows > 0 then self.beforeRemoval() end
    for _, row in ipairs(rows) do
      redis.call('ZREM', queue, row)
      self.waiting = self.waiting - redis.call('HDEL', waiters, string.match(row, '^|%d+ (.*)$') or '')
    end
  end
  -- Whether a tenant has a waiter in the queue. A suspended waiter has left it.
  function self.hasWaiter(tenant)
    return redis.call('ZLEXCOUNT', queue, '[' .. tenant .. ' ', '(' .. tenant .. '!') > 0
  end
  local function positionIn(waiter)
    return redis.call('ZLEXCOUNT', queue, '[' .. waiter.tenant .. ' ', '(' .. rowOf(waiter))
  end
  -- Puts a waiter into the queue, even if it is there already or suspended. Returns how many of its tenant's waiters are before it.
  local function stand(waiter, aliveUntil)
    local suspended = waiter.aliveUntil and suspendedRowOf(waiter)
    waiter.aliveUntil, waiter.watched = aliveUntil, string.format('%.0f', self.nextEnd() or never)
    write(waiter)
    redis.call('ZADD', queue, 0, rowOf(waiter))
    if suspended then redis.call('ZREM', queue, suspended) end
    local position = positionIn(waiter)
    if position == 0 and not self.isTooHeavy(waiter.weight, waiter.tenant) then firsts[waiter.tenant] = waiter end
    -- Without tenants, only the first waiter changes `ready`. In a group, the first waiter may have died.
    if position == 0 or self.perTenant then self.reevaluate(waiter.tenant) end
    return position
  end
  -- Queues a permit record, at its old place if `waiter` is known, and alive until that time. Returns how many of its tenant's
  -- waiters are before it.
  function self.join(waiter, permitRecord, aliveUntil, priority, grantMs, inbox)
    if not waiter then
      local ticket = redis.call('HINCRBY', waiters, '#', 1)
      waiter = { permitRecord = permitRecord, score = string.format('%016.0f', (priority + 1000) * 4398046511104 + ticket) }
      waiter.token, waiter.weight, waiter.tenant = permitRecordParts(permitRecord)
      self.waiting = self.waiting + 1
    end
    waiter.grantMs, waiter.inbox = grantMs, inbox
    return stand(waiter, aliveUntil)
  end
  -- The heartbeat of waiters, with the inbox that notifies them from now on. It skips waiters without a record.
  function self.heartbeat(permitRecords, aliveUntil, inbox)
    local found = #permitRecords > 0 and redis.call('HMGET', waiters, unpack(permitRecords)) or {}
    local watched = string.format('%.0f', self.nextEnd() or never)
    local written, rows, suspended, tenants = {}, {}, {}, {}
    for i, permitRecord in ipairs(permitRecords) do
      local waiter = parse(permitRecord, found[i])
      if waiter then
        suspended[#suspended + 1] = suspendedRowOf(waiter)
        waiter.aliveUntil, waiter.watched, waiter.inbox = aliveUntil, watched, inbox
        written[#written + 1] = permitRecord
        written[#written + 1] = recordOf(waiter)
        rows[#rows + 1] = 0
        rows[#rows + 1] = rowOf(waiter)
        tenants[waiter.tenant] = true
      end
    end
    if #rows == 0 then return end
    redis.call('HSET', waiters, unpack(written))
    redis.call('ZADD', queue, unpack(rows))
    redis.call('ZREM', queue, unpack(suspended))
    for tenant in pairs(tenants) do
      firsts[tenant] = nil
      self.reevaluate(tenant)
    end
  end
  -- A state for each permit record, as the heartbeat replies.
  function self.statesOf(permitRecords)
    if #permitRecords == 0 then return {} end
    local endings = redis.call('ZMSCORE', permits, unpack(permitRecords))
    local found = redis.call('HMGET', waiters, unpack(permitRecords))
    local states = {}
    for i, permitRecord in ipairs(permitRecords) do
      local ending = tonumber(endings[i] or nil)
      local waiter = parse(permitRecord, found[i])
      states[i] = ending and ending > now and now - ending - 2 or waiter and positionIn(waiter) or -1
    end
    return states
  end
  -- Takes a waiter out of the queue until its next heartbeat.
  function self.suspend(waiter)
    -- Keep this order: the key may have no other row, and would lose its expiry.
    redis.call('ZADD', queue, 0, suspendedRowOf(waiter))
    redis.call('ZREM', queue, rowOf(waiter))
    firsts[waiter.tenant] = nil
  end
  -- Returns whether the permit record waited.
  function self.leave(permitRecord)
    local waiter = self.waiterOf(permitRecord)
    if not waiter then return false end
    self.leaveQueue(waiter)
    self.reevaluate(waiter.tenant)
    self.watch(self.firstOf(waiter.tenant))
    return true
  end
  -- Drops some of the dead waiters in the queue. Returns whether there were any.
  function self.purgeDead()
    local dead = someDead(waiters, now)
    for _, permitRecord in ipairs(dead) do
      self.leave(permitRecord)
    end
    return #dead > 0
  end
  -- Keeps the waiters' keys for a while longer than waiters may be silent.
  function self.keepQueue(aliveMs)
    if not isQueueNew and redis.call('PTTL', waiters) > aliveMs then return end
    for _, key in ipairs({ queue, ready, waiters }) do
      redis.call('PEXPIRE', key, aliveMs + 1000)
    end
    redis.call('PEXPIRE', meta, metaMs)
  end
  -- How many of its tenant's waiters are before it; -1: it does not wait.
  function self.positionOf(permitRecord)
    local waiter = self.waiterOf(permitRecord)
    return waiter and positionIn(waiter) or -1
  end
end
