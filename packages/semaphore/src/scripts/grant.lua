-- grant.lua - the held permits, the waiters, and the next one to grant.
--
-- Needs newNotifier, someDead
-- Defines layoutError, metaMs, openSemaphore
--
-- All inputs are parameters.
local layoutError = 'KIT_LAYOUT the semaphore was written by a newer version, or is damaged'
local metaMs = 604800000
local pageSize = 100
local mostExpired = 200
local mostTurns = 1000
local mostUnreachable = 200
local mostEvaluated = 500
local evaluatingMs = 1000
-- Later than the end of any permit.
local never = 9999999999999
-- No row has this name, and no row that is searched for sorts after it.
local pin = '~'
-- The rows of `permits` that count have negative scores: `#` the weights beyond 1, and `#tenant` what that tenant has in use.
-- So the counts expire with the permits, and cannot be lost without them.
local countRow = '#'
local firstEnd = '(0'
-- The row of score 0 that lists a permit by its tenant: these rows are in order of their names.
local function ownRow(tenant, permitRecord) return '=' .. tenant .. ' ' .. permitRecord end

-- Counts and limits have at most fifteen digits. Any other value was written by hand, and gives nil.
local function numberIn(text) return #text < 16 and string.match(text, '^%d+$') and tonumber(text) or nil end

-- Token, weight and tenant of a permit record. A malformed record counts as one permit until its end.
local function permitRecordParts(permitRecord)
  local token, weight, tenant = string.match(permitRecord, '^([^|]*)|(%d+)|([^|]*)|')
  return token or permitRecord, tonumber(weight or 1), tenant or ''
end

-- The state of one semaphore for this call; nil for an unknown layout, and for limits that are not numbers. `call`
-- has
--
-- now, shared        the server's milliseconds; whether subscribers may sit on another node
-- present            the permit records that learn of a grant by the reply of this call, each with the length of its lease, or
--                    true for that of its record
-- tenant             of an acquire: its own ended permits are dropped before others', where they could keep it from room
-- limit, perTenant   what its limits shall be where it has none yet; no limit leaves it without, and nothing is granted
--
-- Everything is read before the first write, so that a key of another type leaves no half change behind.
--
-- The waiters of a tenant are in the queue in order of their scores; `ready` has the tenants whose first waiter has room there.
-- So the least score in `ready` is the next, and a full tenant delays no other. A waiter that cannot be notified, and whose
-- next heartbeat is not soon, is suspended: it leaves the queue and comes back to its old place by its next heartbeat.
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
  local isQueueNew = redis.call('ZCARD', queue) == 0
  local isUnqueued = isQueueNew
  local isReadyNew = redis.call('ZCARD', ready) == 0
  local records = redis.call('HLEN', waiters)
  local isAlone = isQueueNew and records <= 1
  limit = tonumber(limit or call.limit)
  perTenant = tonumber(perTenant or nil)
  local notifier = newNotifier(call.shared)
  local self = {}

  -- In a slot that is moving, a key whose last row was removed cannot be used again: the script would end there, with a part of
  -- its writes. So before the first removal each key gets a row that stays until the end. A script begins in such a slot only
  -- if all its keys exist; and on a single server no slot moves.
  local mayMove = held > 0 and not isQueueNew and not isReadyNew
  local isPinned = false
  local function beforeRemoval()
    if isPinned or not mayMove then return end
    mayMove = notifier.isShared()
    if not mayMove then return end
    isPinned = true
    -- A write without effect: at maxmemory the writes after a write that frees memory are allowed.
    redis.call('ZREM', ready, '|')
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
  -- How many wait; the hash also has the last ticket.
  self.waiting = math.max(0, records - 1)

  self.used = held - (redis.call('ZSCORE', permits, countRow) or 0)
  -- Whether there may be room without a notified waiter: the limits were lost, or all permits ended with their key. The call
  -- that finds it grants, since the next one will not.
  self.isRegained = limit and ((not layout and held > 0) or (held == 0 and not isUnqueued))

  local function add(name, change)
    if change ~= 0 and tonumber(redis.call('ZINCRBY', permits, -change, name)) >= 0 then redis.call('ZREM', permits, name) end
  end
  -- Counts a permit in or out that was written or dropped already.
  local function count(sign, weight, tenant)
    self.used = self.used + sign * weight
    add(countRow, sign * (weight - 1))
    if tenant ~= '' then add(countRow .. tenant, sign * weight) end
  end
  local function usedBy(tenant) return -(redis.call('ZSCORE', permits, countRow .. tenant) or 0) end
  local expireOwn
  local function hasRoom(weight, tenant)
    -- A permit without a tenant counts against the common limit alone.
    if not perTenant or tenant == '' or usedBy(tenant) + weight <= perTenant then return true end
    return tenant == call.tenant and expireOwn(tenant) and usedBy(tenant) + weight <= perTenant
  end
  -- The waiter of a permit record; nil: there is none.
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
  -- Whether the limits are less than a weight, which would wait for ever. A limit of 0 is a pause.
  function self.isTooHeavy(weight, tenant)
    if not limit then return false end
    local most = tenant == '' and limit or math.min(limit, perTenant or limit)
    return most > 0 and weight > most
  end
  -- The result of firstOf, until that changes; false: there is none.
  local firsts = {}
  -- The first living waiter of a tenant. Drops the dead waiters before it, and those that are too heavy since the limits were
  -- lowered: their next heartbeat finds them unknown, they acquire again, and are refused.
  local function firstOf(tenant)
    while firsts[tenant] == nil do
      local row = redis.call('ZRANGEBYLEX', queue, '[' .. tenant .. ' ', '(' .. tenant .. '!', 'LIMIT', 0, 1)[1]
      local permitRecord = row and string.match(row, '^%S* %d+ (.*)$')
      local waiter = permitRecord and self.waiterOf(permitRecord)
      if not row then
        firsts[tenant] = false
      elseif waiter and tonumber(waiter.aliveUntil) > now and not self.isTooHeavy(waiter.weight, tenant) then
        firsts[tenant] = waiter
      else
        beforeRemoval()
        redis.call('ZREM', queue, row)
        self.waiting = self.waiting - redis.call('HDEL', waiters, permitRecord or '')
        isQueueNew = true
        if waiter then notifyToLook(waiter, string.format('%.0f', now)) end
      end
    end
    return firsts[tenant]
  end
  -- Puts a tenant into `ready` by the score of its first waiter.
  local function reevaluate(tenant)
    local waiter = firstOf(tenant)
    if waiter and hasRoom(waiter.weight, tenant) then
      if redis.call('ZADD', ready, waiter.score, tenant) == 1 then
        -- It may be a new key.
        local ms = redis.call('PTTL', waiters)
        if ms > 0 then redis.call('PEXPIRE', ready, ms) end
      end
    else
      beforeRemoval()
      redis.call('ZREM', ready, tenant)
    end
  end
  local function leaveQueue(waiter)
    beforeRemoval()
    redis.call('ZREM', queue, rowOf(waiter), suspendedRowOf(waiter))
    self.waiting = self.waiting - redis.call('HDEL', waiters, waiter.permitRecord)
    firsts[waiter.tenant] = nil
    -- It may have been the last row.
    isQueueNew = true
  end
  -- The result of nextEnd, until that changes; false: nothing.
  local nearest
  -- When the next permit ends; nil: there is none.
  local function nextEnd()
    if nearest == nil then
      local _, ending = unpack(redis.call('ZRANGEBYSCORE', permits, firstEnd, '(+inf', 'WITHSCORES', 'LIMIT', 0, 1))
      nearest = tonumber(ending or nil) or false
    end
    return nearest or nil
  end
  local function watch(waiter)
    local ending = nextEnd()
    if not waiter or not ending or tonumber(waiter.watched) <= ending then return end
    waiter.watched = string.format('%.0f', ending)
    if notifyToLook(waiter, waiter.watched) then write(waiter) end
  end

  -- Whether permits have ended that are not dropped yet.
  function self.hasEnded() return (nextEnd() or now + 1) <= now end
  -- Drops these permits, and returns the tenants that they had.
  local function dropEnded(over)
    nearest = nil
    beforeRemoval()
    local freed, tenants, names, rows = { [countRow] = 0 }, {}, { countRow }, {}
    for i, permitRecord in ipairs(over) do
      local _, weight, tenant = permitRecordParts(permitRecord)
      local name = countRow .. tenant
      rows[i] = permitRecord
      self.used = self.used - weight
      freed[countRow] = freed[countRow] + weight - 1
      if tenant ~= '' then
        if not freed[name] then names[#names + 1] = name end
        freed[name] = (freed[name] or 0) + weight
        rows[#over + i] = ownRow(tenant, permitRecord)
      end
      tenants[tenant] = true
    end
    local counts = redis.call('ZMSCORE', permits, unpack(names))
    local left, none = {}, {}
    for i, name in ipairs(names) do
      local sum = -(counts[i] or 0) - freed[name]
      if sum > 0 then
        left[#left + 1] = string.format('%.0f', -sum)
        left[#left + 1] = name
      else
        none[#none + 1] = name
      end
    end
    for i = 1, 2 * #over do
      rows[i] = rows[i] or ''
    end
    redis.call('ZREM', permits, unpack(rows))
    if #left > 0 then redis.call('ZADD', permits, 'XX', unpack(left)) end
    if #names > 1 or counts[1] then redis.call('ZREM', permits, '', unpack(none)) end
    return tenants
  end
  -- Whether there may be more of them than one call drops.
  local areOthersLeft = false
  -- Drops permits that have ended, mostExpired in one call. Returns whether there were any. Those that are left count no longer,
  -- except their weights beyond 1, and in their tenants.
  function self.expirePermits()
    if not self.hasEnded() then return false end
    local over = redis.call('ZRANGEBYSCORE', permits, firstEnd, now, 'LIMIT', 0, mostExpired)
    local tenants = dropEnded(over)
    areOthersLeft = #over == mostExpired
    if areOthersLeft then self.used = self.used - redis.call('ZCOUNT', permits, firstEnd, now) end
    for tenant in pairs(perTenant and not isUnqueued and tenants or {}) do
      reevaluate(tenant)
    end
    return true
  end
  -- Whether the use of this tenant is known to be without its ended permits, although others' are left.
  local isOwnUse = false
  -- Drops a tenant's ended permits where others' are left, mostExpired at most. Returns whether there were any.
  function expireOwn(tenant)
    if isOwnUse or not areOthersLeft then return false end
    local start = ownRow(tenant, '')
    redis.call('ZADD', permits, 0, start)
    local rank = redis.call('ZRANK', permits, start)
    local rows = redis.call('ZRANGE', permits, rank + 1, rank + mostExpired)
    redis.call('ZREM', permits, start)
    local own, over, living = {}, {}, 0
    for _, row in ipairs(rows) do
      if string.sub(row, 1, #start) ~= start then break end
      own[#own + 1] = string.sub(row, #start + 1)
    end
    local ends = #own > 0 and redis.call('ZMSCORE', permits, unpack(own)) or {}
    for i, permitRecord in ipairs(own) do
      local ending = tonumber(ends[i] or nil)
      local _, weight = permitRecordParts(permitRecord)
      if ending and ending > now then living = living + weight end
      if ending and ending <= now then over[#over + 1] = permitRecord end
    end
    if #over > 0 then
      dropEnded(over)
      self.used = self.used + #over
    end
    isOwnUse = living == usedBy(tenant)
    return #over > 0
  end
  -- Whether a permit that does not fit would fit without the ended permits that are left.
  function self.mayFitLater(permitRecord)
    if not areOthersLeft or not self.hasEnded() then return false end
    local _, weight, tenant = permitRecordParts(permitRecord)
    local beyond = -(redis.call('ZSCORE', permits, countRow) or 0)
    if self.used - beyond + weight > limit then return false end
    if hasRoom(weight, tenant) then return beyond > 0 end
    return not isOwnUse
  end
  -- Drops suspended waiters without a recent heartbeat.
  function self.purgeSuspended()
    local rows = redis.call('ZRANGEBYLEX', queue, '[|', '(|' .. string.format('%.0f', now), 'LIMIT', 0, pageSize)
    isQueueNew = isQueueNew or #rows > 0
    if #rows > 0 then beforeRemoval() end
    for _, row in ipairs(rows) do
      redis.call('ZREM', queue, row)
      self.waiting = self.waiting - redis.call('HDEL', waiters, string.match(row, '^|%d+ (.*)$') or '')
    end
  end
  -- When the permit of a permit record ends; nil: it has ended, or never was.
  function self.endOf(permitRecord)
    local ending = redis.call('ZSCORE', permits, permitRecord)
    return ending and tonumber(ending) > now and tonumber(ending) or nil
  end
  function self.fits(permitRecord)
    local _, weight, tenant = permitRecordParts(permitRecord)
    return limit and self.used + weight <= limit and hasRoom(weight, tenant)
  end
  -- Writes a waiter's permit, and makes the key outlive it.
  local function take(waiter, ms)
    local rows = { string.format('%.0f', now + ms), waiter.permitRecord }
    if waiter.tenant ~= '' then rows[3], rows[4] = 0, ownRow(waiter.tenant, waiter.permitRecord) end
    redis.call('ZADD', permits, unpack(rows))
    if nearest ~= nil then nearest = math.min(nearest or now + ms, now + ms) end
    if redis.call('PTTL', permits) < ms + 1000 then redis.call('PEXPIRE', permits, 2 * ms + 1000) end
    count(1, waiter.weight, waiter.tenant)
  end
  -- Takes a permit that fits without a place in the queue: a single caller leaves no ticket behind. Returns when it ends; nil:
  -- there is a waiter, or nothing is granted now.
  function self.takeAlone(permitRecord, ms, hasShrunk)
    if not isAlone or (tonumber(evaluatingUntil or 0) or 0) > now then return nil end
    if not hasShrunk then redis.call('ZREM', ready, '|') end
    local _, weight, tenant = permitRecordParts(permitRecord)
    take({ permitRecord = permitRecord, weight = weight, tenant = tenant }, ms)
    redis.call('PEXPIRE', meta, metaMs)
    return now + ms
  end
  -- Removes a permit, and returns whether it was still valid.
  function self.drop(permitRecord, ending)
    local _, weight, tenant = permitRecordParts(permitRecord)
    beforeRemoval()
    redis.call('ZREM', permits, permitRecord, ownRow(tenant, permitRecord))
    nearest = nil
    count(-1, weight, tenant)
    if perTenant then reevaluate(tenant) end
    return tonumber(ending) > now
  end
  -- Whether a tenant has a waiter in the queue; a suspended one has left it.
  function self.hasWaiter(tenant)
    return redis.call('ZLEXCOUNT', queue, '[' .. tenant .. ' ', '(' .. tenant .. '!') > 0
  end
  local function positionIn(waiter)
    return redis.call('ZLEXCOUNT', queue, '[' .. waiter.tenant .. ' ', '(' .. rowOf(waiter))
  end
  -- Puts a waiter into the queue, where it may be already, or suspended. Returns how many of its tenant are before it.
  local function stand(waiter, aliveUntil)
    local suspended = waiter.aliveUntil and suspendedRowOf(waiter)
    waiter.aliveUntil, waiter.watched = aliveUntil, string.format('%.0f', nextEnd() or never)
    write(waiter)
    redis.call('ZADD', queue, 0, rowOf(waiter))
    if suspended then redis.call('ZREM', queue, suspended) end
    local position = positionIn(waiter)
    if position == 0 and not self.isTooHeavy(waiter.weight, waiter.tenant) then firsts[waiter.tenant] = waiter end
    -- Without tenants only the first waiter changes `ready`; in a group the first may have died.
    if position == 0 or perTenant then reevaluate(waiter.tenant) end
    return position
  end
  -- Makes a permit record wait, at its old place if `waiter` is known, and alive until then. Returns how many of its tenant are
  -- before it.
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
  -- The heartbeat of waiters, with the inbox that notifies them from now on; those without a record are left out.
  function self.heartbeat(permitRecords, aliveUntil, inbox)
    local found = #permitRecords > 0 and redis.call('HMGET', waiters, unpack(permitRecords)) or {}
    local watched = string.format('%.0f', nextEnd() or never)
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
      reevaluate(tenant)
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
  -- Returns whether it waited.
  function self.leave(permitRecord)
    local waiter = self.waiterOf(permitRecord)
    if not waiter then return false end
    leaveQueue(waiter)
    reevaluate(waiter.tenant)
    watch(firstOf(waiter.tenant))
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
  -- Keeps what the waiters need for a while longer than they may be silent.
  function self.keepQueue(aliveMs)
    if not isQueueNew and redis.call('PTTL', waiters) > aliveMs then return end
    for _, key in ipairs({ queue, ready, waiters }) do
      redis.call('PEXPIRE', key, aliveMs + 1000)
    end
    redis.call('PEXPIRE', meta, metaMs)
  end
  -- How many of its tenant are before it; -1: it does not wait.
  function self.positionOf(permitRecord)
    local waiter = self.waiterOf(permitRecord)
    return waiter and positionIn(waiter) or -1
  end
  -- Milliseconds to the end of the next permit; -1: there is none.
  function self.msLeft()
    local ending = nextEnd()
    return ending and math.max(0, ending - now) or -1
  end
  -- Puts the tenants that wait in their places, from here on, some of them in one call. Returns where to go on; nil: those
  -- were all.
  local function evaluateFrom(start)
    for _ = 1, mostEvaluated do
      local row = redis.call('ZRANGEBYLEX', queue, start, '(|', 'LIMIT', 0, 1)[1]
      if not row then return nil end
      local tenant = string.match(row, '^%S*')
      reevaluate(tenant)
      start = '[' .. tenant .. '!'
    end
    return start
  end
  -- The same over several calls. Between them nothing is granted, since a tenant that is not re-evaluated yet may be next.
  -- If the caller does not go on, this lasts evaluatingMs, and each tenant is re-evaluated by its next heartbeat.
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
  -- Uses other limits from here on. Returns whether all tenants are to be re-evaluated: a higher limit only gives waiters
  -- room; after a pause some may be too heavy.
  function self.resize(most, mostPerTenant)
    local isHigher = limit > 0 and most >= limit and mostPerTenant == perTenant
    limit, perTenant = most, mostPerTenant
    self.limit, self.perTenant, self.changedAt = limit, perTenant, tonumber(changedAt or nil) or 0
    firsts = {}
    return not isHigher
  end
  -- Whether a waiter that does not fit keeps those after it waiting. A waiter whose inbox has no subscriber does not, while permits
  -- are free: it may be dead. One that polls has no inbox, and counts as alive until it misses its heartbeats.
  local function mayBlock(waiter)
    local inbox = waiter.inbox
    if self.used >= limit or call.present[waiter.permitRecord] or inbox == '+' or inbox == '-' then return true end
    return notifier.listens(inbox)
  end
  -- Grants, in order, while the next fits. Returns whether there may be more to grant than one call does.
  --
  -- `hasShrunk`: the caller has made a write that shrinks, after which all others are allowed at maxmemory. If not, a write of
  -- nothing is made.
  function self.grant(hasShrunk)
    if not hasShrunk then redis.call('ZREM', ready, '|') end
    local granted = {}
    local turns = 0
    -- Where nothing is free no waiter has to be found; in a group the first may be another than before.
    local isEvaluating = (tonumber(evaluatingUntil or 0) or 0) > now
    local isOver = not limit or isEvaluating or (self.used >= limit and not perTenant)
    while not isOver and turns < mostTurns do
      turns = turns + 1
      local tenant, score = unpack(redis.call('ZRANGE', ready, 0, 0, 'WITHSCORES'))
      local isNobody = not tenant or tenant == pin
      local waiter = not isNobody and firstOf(tenant)
      if isNobody then
        isOver = true
      elseif not waiter or tonumber(waiter.score) ~= tonumber(score) or not hasRoom(waiter.weight, tenant) then
        reevaluate(tenant)
      elseif self.used + waiter.weight > limit and mayBlock(waiter) then
        -- It waits for the next end now, if it did not before.
        watch(waiter)
        isOver = true
      else
        local ms = tonumber(waiter.grantMs)
        local isPresent = call.present[waiter.permitRecord]
        if type(isPresent) == 'number' then ms = isPresent end
        local fits = self.used + waiter.weight <= limit
        if fits and (isPresent or waiter.inbox == '+' or notifier.listens(waiter.inbox)) then
          leaveQueue(waiter)
          take(waiter, ms)
          if not isPresent then
            local parts = { waiter.token, 'granted', string.format('%.0f', now + ms), ms }
            notifier.notify(waiter.inbox, table.concat(parts, '\t'))
          end
          granted[tenant] = true
          isOver = self.used >= limit and not perTenant
        else
          -- In this order: the key may have no other row, and would lose its expiry.
          redis.call('ZADD', queue, 0, suspendedRowOf(waiter))
          redis.call('ZREM', queue, rowOf(waiter))
          firsts[tenant] = nil
          isOver = notifier.unreachable >= mostUnreachable
        end
        reevaluate(tenant)
      end
    end
    -- The next waiters look when the new permits end, unless they look sooner anyhow.
    for each in pairs(granted) do
      watch(firstOf(each))
    end
    return turns >= mostTurns or notifier.unreachable >= mostUnreachable
  end
  return self
end
