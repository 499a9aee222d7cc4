-- counts.lua - the permits: how much is in use, in total and by each tenant, and which permits have ended.
--
-- Defines permitRecordParts, firstEnd, addCounts
--
-- All inputs are parameters.
local mostExpired = 200
-- The rows of `permits` that count have negative scores: `#` the weights beyond 1, and `#tenant` what that tenant has in use.
-- So the counts expire with the permits, and cannot be lost without them.
local countRow = '#'
local firstEnd = '(0'
-- The row of score 0 that lists a permit by its tenant. These rows are sorted by name.
local function ownRow(tenant, permitRecord) return '=' .. tenant .. ' ' .. permitRecord end

-- Token, weight and tenant of a permit record. A malformed record counts as one permit until its end.
local function permitRecordParts(permitRecord)
  local token, weight, tenant = string.match(permitRecord, '^([^|]*)|(%d+)|([^|]*)|')
  return token or permitRecord, tonumber(weight or 1), tenant or ''
end

-- Adds the permits to `self`, the semaphore of this call. `held`: how many permits the key has, including ended ones. It calls
-- `self.beforeRemoval` of grant.lua, and `self.reevaluate` of search.lua.
local function addCounts(self, permits, call, held)
  local now = call.now
  self.used = held - (redis.call('ZSCORE', permits, countRow) or 0)
  local function add(name, change)
    if change ~= 0 and tonumber(redis.call('ZINCRBY', permits, -change, name)) >= 0 then redis.call('ZREM', permits, name) end
  end
  -- Counts a permit that was written or dropped already.
  local function count(sign, weight, tenant)
    self.used = self.used + sign * weight
    add(countRow, sign * (weight - 1))
    if tenant ~= '' then add(countRow .. tenant, sign * weight) end
  end
  local function usedBy(tenant) return -(redis.call('ZSCORE', permits, countRow .. tenant) or 0) end
  local expireOwn
  function self.hasRoom(weight, tenant)
    -- A permit without a tenant counts only against the common limit.
    if not self.perTenant or tenant == '' or usedBy(tenant) + weight <= self.perTenant then return true end
    return tenant == call.tenant and expireOwn(tenant) and usedBy(tenant) + weight <= self.perTenant
  end
  -- The result of nextEnd, until it changes. False: there is none.
  local nearest
  -- When the next permit ends. Nil: there is none.
  function self.nextEnd()
    if nearest == nil then
      local _, ending = unpack(redis.call('ZRANGEBYSCORE', permits, firstEnd, '(+inf', 'WITHSCORES', 'LIMIT', 0, 1))
      nearest = tonumber(ending or nil) or false
    end
    return nearest or nil
  end
  -- Whether permits have ended that are not dropped yet.
  function self.hasEnded() return (self.nextEnd() or now + 1) <= now end
  -- Drops these permits, and returns their tenants.
  local function dropEnded(over)
    nearest = nil
    self.beforeRemoval()
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
  -- Whether more permits may have ended than one call drops.
  local areOthersLeft = false
  -- Drops permits that have ended, up to mostExpired in one call. Returns whether there were any. Ended permits that stay no longer
  -- count, except their weights beyond 1, and in their tenants.
  function self.expirePermits()
    if not self.hasEnded() then return false end
    local over = redis.call('ZRANGEBYSCORE', permits, firstEnd, now, 'LIMIT', 0, mostExpired)
    local tenants = dropEnded(over)
    areOthersLeft = #over == mostExpired
    if areOthersLeft then self.used = self.used - redis.call('ZCOUNT', permits, firstEnd, now) end
    for tenant in pairs(self.perTenant and not self.isUnqueued and tenants or {}) do
      self.reevaluate(tenant)
    end
    return true
  end
  -- Whether this tenant's use no longer includes its ended permits, although ended permits of other tenants are left.
  local isOwnUse = false
  -- Drops up to mostExpired ended permits of a tenant, when other tenants' ended permits are left. Returns whether there were any.
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
  -- Whether a permit that does not fit would fit if the remaining ended permits were dropped.
  function self.mayFitLater(permitRecord)
    if not areOthersLeft or not self.hasEnded() then return false end
    local _, weight, tenant = permitRecordParts(permitRecord)
    local beyond = -(redis.call('ZSCORE', permits, countRow) or 0)
    if self.used - beyond + weight > self.limit then return false end
    if self.hasRoom(weight, tenant) then return beyond > 0 end
    return not isOwnUse
  end
  -- When the permit of a permit record ends. Nil: it has ended, or never existed.
  function self.endOf(permitRecord)
    local ending = redis.call('ZSCORE', permits, permitRecord)
    return ending and tonumber(ending) > now and tonumber(ending) or nil
  end
  function self.fits(permitRecord)
    local _, weight, tenant = permitRecordParts(permitRecord)
    return self.limit and self.used + weight <= self.limit and self.hasRoom(weight, tenant)
  end
  -- Writes a waiter's permit, and makes the key live longer than the permit.
  function self.take(waiter, ms)
    local rows = { string.format('%.0f', now + ms), waiter.permitRecord }
    if waiter.tenant ~= '' then rows[3], rows[4] = 0, ownRow(waiter.tenant, waiter.permitRecord) end
    redis.call('ZADD', permits, unpack(rows))
    if nearest ~= nil then nearest = math.min(nearest or now + ms, now + ms) end
    if redis.call('PTTL', permits) < ms + 1000 then redis.call('PEXPIRE', permits, 2 * ms + 1000) end
    count(1, waiter.weight, waiter.tenant)
  end
  -- Removes a permit, and returns whether it was still valid.
  function self.drop(permitRecord, ending)
    local _, weight, tenant = permitRecordParts(permitRecord)
    self.beforeRemoval()
    redis.call('ZREM', permits, permitRecord, ownRow(tenant, permitRecord))
    nearest = nil
    count(-1, weight, tenant)
    if self.perTenant then self.reevaluate(tenant) end
    return tonumber(ending) > now
  end
  -- Milliseconds to the end of the next permit; -1: there is none.
  function self.msLeft()
    local ending = self.nextEnd()
    return ending and math.max(0, ending - now) or -1
  end
end
