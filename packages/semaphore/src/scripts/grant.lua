-- grant.lua - who has how much, who waits for it, and who is next.
--
-- Needs newTeller, someDead
-- Defines layoutError, metaMs, openSemaphore
--
-- All inputs are parameters.
local layoutError = 'KIT_LAYOUT the semaphore was written by a newer version'
local metaMs = 604800000
local pageSize = 100
local mostSwept = 5000
local mostTurns = 1000
local mostDeaf = 200
local mostSeated = 500
local seatingMs = 1000
-- Later than the end of any permit.
local never = 9999999999999

-- What is counted, and the limits, are digits; anything else somebody wrote there by hand. Nil for that.
local function numberIn(text) return string.match(text or '', '^%d+$') and tonumber(text) or nil end

-- Token, weight and tenant of a claim; what is none counts as one, until its time is over.
local function claimParts(claim)
  local token, weight, tenant = string.match(claim, '^([^|]*)|(%d+)|([^|]*)|')
  return token or claim, tonumber(weight or 1), tenant or ''
end

-- One semaphore, as this call finds it; nil for a layout that is not ours. `call` has
--
-- now, shared        the server's milliseconds; whether subscribers may sit on another node
-- present            the claims that hear of a grant by the reply of this very call, each with the length of its lease, or
--                    true for that of its record
-- limit, perTenant   what its limits shall be where it has none yet; no limit leaves it without, and nothing is granted
--
-- Everything is read before the first write, so that a key of another type leaves no half change behind. What is counted
-- is counted anew where the server has lost (evicted) one key and kept another.
--
-- The waiters of a tenant stand in line in order of their scores; `heads` has the tenants whose first waiter has room
-- there. So the least score in `heads` is the next, a full tenant holds up nobody, and nobody overtakes. A waiter that
-- cannot be told, nor asks by itself soon, is set aside: it leaves the line and comes back to its old place by its next
-- beat.
local function openSemaphore(keys, call)
  local permits, meta, line, heads, waiters = unpack(keys)
  local now = call.now
  local layout, limit, perTenant, extra, seatingUntil =
    unpack(redis.call('HMGET', meta, 'layout', 'permits', 'perTenant', 'extra', 'seating'))
  if layout and layout ~= '1' then return nil end
  local held = redis.call('ZCARD', permits)
  local isLineNew = redis.call('ZCARD', line) == 0
  redis.call('ZCARD', heads)
  local records = redis.call('HLEN', waiters)
  limit = numberIn(limit) or tonumber(call.limit)
  perTenant = perTenant and (numberIn(perTenant) or tonumber(call.perTenant)) or nil
  local tell, deafCount = newTeller(call.shared)
  local self = {}

  if not layout and limit then
    perTenant = tonumber(call.perTenant)
    redis.call('HSET', meta, 'layout', '1', 'permits', string.format('%.0f', limit))
    if perTenant then redis.call('HSET', meta, 'perTenant', string.format('%.0f', perTenant)) end
    redis.call('PEXPIRE', meta, metaMs)
  end
  self.limit, self.perTenant = limit, perTenant
  -- How many wait; the last ticket is beside them.
  self.waiting = math.max(0, records - 1)

  local function recount()
    local claims = redis.call('ZRANGE', permits, 0, -1)
    local used, sum = {}, 0
    for _, claim in ipairs(claims) do
      local _, weight, tenant = claimParts(claim)
      sum = sum + weight
      if tenant ~= '' then used[tenant] = (used[tenant] or 0) + weight end
    end
    for _, field in ipairs(redis.call('HKEYS', meta)) do
      if string.sub(field, 1, 2) == 'u:' then redis.call('HDEL', meta, field) end
    end
    redis.call('HDEL', meta, 'extra')
    if sum > #claims then redis.call('HSET', meta, 'extra', sum - #claims) end
    for tenant, weight in pairs(used) do
      redis.call('HSET', meta, 'u:' .. tenant, weight)
    end
    self.used = sum
  end
  local isMetaLost = not layout and held > 0
  local isCountLeft = held == 0 and redis.call('HLEN', meta) > (perTenant and 3 or 2)
  -- Whether there may be room that nobody was told of.
  self.isRecounted = limit and (isMetaLost or isCountLeft or not numberIn(extra or '0'))
  if self.isRecounted then
    recount()
  else
    self.used = held + (numberIn(extra) or 0)
  end

  -- Returns whether it was a number.
  local function add(field, change)
    if change == 0 then return true end
    local sum = redis.pcall('HINCRBY', meta, field, change)
    if type(sum) == 'number' and sum <= 0 then redis.call('HDEL', meta, field) end
    return type(sum) == 'number'
  end
  -- Counts a permit in, or out, that was written or dropped already. Returns whether that was all; if not, all was counted.
  local function count(sign, weight, tenant)
    self.used = self.used + sign * weight
    if add('extra', sign * (weight - 1)) and (tenant == '' or add('u:' .. tenant, sign * weight)) then return true end
    recount()
    return false
  end
  local function hasRoom(weight, tenant)
    -- Who names no tenant is counted among all alone.
    if not perTenant or tenant == '' then return true end
    local used = redis.call('HGET', meta, 'u:' .. tenant) or '0'
    if not numberIn(used) then
      recount()
      used = redis.call('HGET', meta, 'u:' .. tenant) or '0'
    end
    return used + weight <= perTenant
  end
  -- What is known of a claim that waits; nil: it does not.
  function self.waiterOf(claim)
    local record = redis.call('HGET', waiters, claim)
    local aliveUntil, watched, score, grantMs, inbox = string.match(record or '', '^(%d+) (%d+) (%d+) (%d+) (%S+)$')
    if not aliveUntil then return nil end
    local waiter = { claim = claim, score = score, aliveUntil = aliveUntil, watched = watched, grantMs = grantMs, inbox = inbox }
    waiter.token, waiter.weight, waiter.tenant = claimParts(claim)
    return waiter
  end
  local function write(waiter)
    local parts = { waiter.aliveUntil, waiter.watched, waiter.score, waiter.grantMs, waiter.inbox }
    redis.call('HSET', waiters, waiter.claim, table.concat(parts, ' '))
  end
  local function rowOf(waiter)
    return waiter.tenant .. ' ' .. waiter.score .. ' ' .. waiter.claim
  end
  local function asideOf(waiter)
    return '|' .. waiter.aliveUntil .. ' ' .. waiter.claim
  end
  local function tellToLook(waiter, instant)
    return tell(waiter.inbox, waiter.token .. '\thead\t' .. instant)
  end
  -- Whether the limits are less than a weight, so that it would wait for ever. A limit of 0 is a pause.
  function self.isTooHeavy(weight, tenant)
    if not limit then return false end
    local most = tenant == '' and limit or math.min(limit, perTenant or limit)
    return most > 0 and weight > most
  end
  -- What firstOf found, until that changes; false: nobody.
  local firsts = {}
  -- The first living waiter of a tenant. The dead before it are dropped, and those that are too heavy since the limits were
  -- lowered: they ask again, and are refused.
  local function firstOf(tenant)
    while firsts[tenant] == nil do
      local row = redis.call('ZRANGEBYLEX', line, '[' .. tenant .. ' ', '(' .. tenant .. '!', 'LIMIT', 0, 1)[1]
      local claim = row and string.match(row, '^%S* %d+ (.*)$')
      local waiter = claim and self.waiterOf(claim)
      if not row then
        firsts[tenant] = false
      elseif waiter and tonumber(waiter.aliveUntil) > now and not self.isTooHeavy(waiter.weight, tenant) then
        firsts[tenant] = waiter
      else
        redis.call('ZREM', line, row)
        self.waiting = self.waiting - redis.call('HDEL', waiters, claim or '')
        isLineNew = true
        if waiter then tellToLook(waiter, string.format('%.0f', now)) end
      end
    end
    return firsts[tenant]
  end
  -- Puts a tenant where its first waiter belongs among all tenants.
  local function seat(tenant)
    local waiter = firstOf(tenant)
    if waiter and hasRoom(waiter.weight, tenant) then
      if redis.call('ZADD', heads, waiter.score, tenant) == 1 then
        -- It may be a new key.
        local ms = redis.call('PTTL', waiters)
        if ms > 0 then redis.call('PEXPIRE', heads, ms) end
      end
    else
      redis.call('ZREM', heads, tenant)
    end
  end
  local function leaveLine(waiter)
    redis.call('ZREM', line, rowOf(waiter), asideOf(waiter))
    self.waiting = self.waiting - redis.call('HDEL', waiters, waiter.claim)
    firsts[waiter.tenant] = nil
    -- It may have been the last row.
    isLineNew = true
  end
  -- What nextEnd found, until that changes; false: nothing.
  local nearest
  -- When the next permit ends; nil: there is none.
  local function nextEnd()
    if nearest == nil then nearest = tonumber(redis.call('ZRANGE', permits, 0, 0, 'WITHSCORES')[2]) or false end
    return nearest or nil
  end
  local function watch(waiter)
    local ending = nextEnd()
    if not waiter or not ending or tonumber(waiter.watched) <= ending then return end
    waiter.watched = string.format('%.0f', ending)
    if tellToLook(waiter, waiter.watched) then write(waiter) end
  end

  -- Drops permits whose time is over. Returns whether there were any.
  function self.sweep()
    local freed, swept = {}, 0
    if (nextEnd() or now + 1) > now then return false end
    nearest = nil
    repeat
      local over = redis.call('ZRANGEBYSCORE', permits, '-inf', now, 'LIMIT', 0, pageSize)
      if #over > 0 then redis.call('ZREM', permits, unpack(over)) end
      local isCounting = true
      for _, claim in ipairs(over) do
        local _, weight, tenant = claimParts(claim)
        isCounting = isCounting and count(-1, weight, tenant)
        freed[tenant] = true
      end
      swept = swept + #over
    until #over < pageSize or swept >= mostSwept
    for tenant in pairs(freed) do
      if perTenant then seat(tenant) end
    end
    return true
  end
  -- Drops waiters that died aside.
  function self.bury()
    local rows = redis.call('ZRANGEBYLEX', line, '[|', '(|' .. string.format('%.0f', now), 'LIMIT', 0, pageSize)
    isLineNew = isLineNew or #rows > 0
    for _, row in ipairs(rows) do
      redis.call('ZREM', line, row)
      self.waiting = self.waiting - redis.call('HDEL', waiters, string.match(row, '^|%d+ (.*)$') or '')
    end
  end
  -- When the permit of a claim ends; nil: it has none that lives.
  function self.endOf(claim)
    local ending = redis.call('ZSCORE', permits, claim)
    return ending and tonumber(ending) > now and tonumber(ending) or nil
  end
  function self.fits(claim)
    local _, weight, tenant = claimParts(claim)
    return limit and self.used + weight <= limit and hasRoom(weight, tenant)
  end
  -- Writes a waiter's permit, and keeps the key longer than it.
  local function take(waiter, ms)
    redis.call('ZADD', permits, string.format('%.0f', now + ms), waiter.claim)
    if nearest ~= nil then nearest = math.min(nearest or now + ms, now + ms) end
    if redis.call('PTTL', permits) < ms + 1000 then redis.call('PEXPIRE', permits, 2 * ms + 1000) end
    count(1, waiter.weight, waiter.tenant)
  end
  -- Takes a permit away, and says whether it was still good.
  function self.drop(claim, ending)
    local _, weight, tenant = claimParts(claim)
    redis.call('ZREM', permits, claim)
    nearest = nil
    count(-1, weight, tenant)
    if perTenant then seat(tenant) end
    return tonumber(ending) > now
  end
  local function positionIn(waiter)
    return redis.call('ZLEXCOUNT', line, '[' .. waiter.tenant .. ' ', '(' .. rowOf(waiter))
  end
  -- Stands a waiter in line, where it may stand already, or aside. Returns how many of its tenant are before it.
  local function stand(waiter, aliveUntil)
    local aside = waiter.aliveUntil and asideOf(waiter)
    waiter.aliveUntil, waiter.watched = aliveUntil, string.format('%.0f', nextEnd() or never)
    write(waiter)
    redis.call('ZADD', line, 0, rowOf(waiter))
    if aside then redis.call('ZREM', line, aside) end
    local position = positionIn(waiter)
    if position == 0 and not self.isTooHeavy(waiter.weight, waiter.tenant) then firsts[waiter.tenant] = waiter end
    -- Without tenants whoever is not the first changes nothing; in a group the first may have died.
    if position == 0 or perTenant then seat(waiter.tenant) end
    return position
  end
  -- Lets a claim wait, at its old place if `waiter` is known, and live until then. Returns how many of its tenant are
  -- before it.
  function self.join(waiter, claim, aliveUntil, priority, grantMs, inbox)
    if not waiter then
      local ticket = redis.call('HINCRBY', waiters, '#', 1)
      waiter = { claim = claim, score = string.format('%016.0f', (priority + 1000) * 4398046511104 + ticket) }
      waiter.token, waiter.weight, waiter.tenant = claimParts(claim)
      self.waiting = self.waiting + 1
    end
    waiter.grantMs, waiter.inbox = grantMs, inbox
    return stand(waiter, aliveUntil)
  end
  -- The sign of life of waiters, and where they are told from now on; those unknown are left out.
  function self.beat(claims, aliveUntil, inbox)
    for _, claim in ipairs(claims) do
      local waiter = self.waiterOf(claim)
      if waiter then
        waiter.inbox = inbox
        stand(waiter, aliveUntil)
      end
    end
  end
  -- Returns whether it waited.
  function self.leave(claim)
    local waiter = self.waiterOf(claim)
    if not waiter then return false end
    leaveLine(waiter)
    seat(waiter.tenant)
    return true
  end
  -- Drops some of those that died in line. Returns whether there were any.
  function self.thin()
    local dead = someDead(waiters, now)
    for _, claim in ipairs(dead) do
      self.leave(claim)
    end
    return #dead > 0
  end
  -- Keeps what the waiters need for a while longer than they may be silent.
  function self.keepLine(aliveMs)
    if not isLineNew and redis.call('PTTL', waiters) > aliveMs then return end
    for _, key in ipairs({ line, heads, waiters }) do
      redis.call('PEXPIRE', key, aliveMs + 1000)
    end
    redis.call('PEXPIRE', meta, metaMs)
  end
  -- How many of its tenant are before it; -1: it does not wait.
  function self.positionOf(claim)
    local waiter = self.waiterOf(claim)
    return waiter and positionIn(waiter) or -1
  end
  -- Milliseconds to the end of the next permit; -1: there is none.
  function self.msLeft()
    local ending = nextEnd()
    return ending and math.max(0, ending - now) or -1
  end
  -- Puts the tenants that wait in their places, from here on, some of them in one call. Returns where to go on; nil: those
  -- were all.
  local function seatFrom(start)
    for _ = 1, mostSeated do
      local row = redis.call('ZRANGEBYLEX', line, start, '(|', 'LIMIT', 0, 1)[1]
      if not row then return nil end
      local tenant = string.match(row, '^%S*')
      seat(tenant)
      start = '[' .. tenant .. '!'
    end
    return start
  end
  -- The same over several calls, between which nobody is granted: that would be before those who are not in their places
  -- yet. Whoever does not go on holds them up for a moment only, and each tenant is put in its place by its next beat.
  function self.reseatFrom(start)
    local rest = seatFrom(start)
    seatingUntil = rest and now + seatingMs
    if rest then
      redis.call('HSET', meta, 'seating', string.format('%.0f', seatingUntil))
    else
      redis.call('HDEL', meta, 'seating')
    end
    return rest
  end
  if self.isRecounted then seatFrom('-') end
  -- Goes by other limits from here on. Returns whether tenants are to be put in their places anew: a higher limit changes
  -- nothing for those who wait but that it has room; after a pause some may be too heavy.
  function self.resize(most, mostPerTenant)
    local isHigher = limit > 0 and most >= limit and mostPerTenant == perTenant
    -- Outside of groups nobody relies on what is counted of tenants.
    if mostPerTenant and not perTenant then recount() end
    limit, perTenant = most, mostPerTenant
    self.limit, self.perTenant = limit, perTenant
    firsts = {}
    return not isHigher
  end
  -- Grants, in order, while the next fits. Returns whether there may be more to grant than one call does.
  --
  -- A message goes out before its grant is written: a write that shrinks sees to it that at maxmemory the others are
  -- allowed; of nothing, unless the caller has made one.
  function self.grant(hasShrunk)
    if not hasShrunk then redis.call('ZREM', heads, '|') end
    local granted = {}
    local turns = 0
    -- Where nothing is free nobody has to be looked for; in a group the first may be another than before.
    local isSeating = (tonumber(seatingUntil or 0) or 0) > now
    local isOver = not limit or isSeating or (self.used >= limit and not perTenant)
    while not isOver and turns < mostTurns do
      turns = turns + 1
      local tenant, score = unpack(redis.call('ZRANGE', heads, 0, 0, 'WITHSCORES'))
      local waiter = tenant and firstOf(tenant)
      if not tenant then
        isOver = true
      elseif not waiter or tonumber(waiter.score) ~= tonumber(score) or not hasRoom(waiter.weight, tenant) then
        seat(tenant)
      elseif self.used + waiter.weight > limit then
        -- It waits for the next end now, if it did not before.
        watch(waiter)
        isOver = true
      else
        local ms = tonumber(waiter.grantMs)
        local isPresent = call.present[waiter.claim]
        if type(isPresent) == 'number' then ms = isPresent end
        local message = table.concat({ waiter.token, 'granted', string.format('%.0f', now + ms), ms }, '\t')
        if isPresent or waiter.inbox == '+' or tell(waiter.inbox, message) then
          leaveLine(waiter)
          take(waiter, ms)
          granted[tenant] = true
          isOver = self.used >= limit and not perTenant
        else
          -- In this order: the key may have no other row, and would lose its expiry.
          redis.call('ZADD', line, 0, asideOf(waiter))
          redis.call('ZREM', line, rowOf(waiter))
          firsts[tenant] = nil
          isOver = deafCount() >= mostDeaf
        end
        seat(tenant)
      end
    end
    -- Those who are next look when the new permits end, unless they look sooner anyhow.
    for each in pairs(granted) do
      watch(firstOf(each))
    end
    return turns >= mostTurns or deafCount() >= mostDeaf
  end
  return self
end
