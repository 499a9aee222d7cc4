-- take.lua - counts calls against the limits of their keys, in the order of the rows.
--
-- KEYS[1]  limits    string  limits that replace the callers': `1 changedAt text`
-- KEYS[2]  all       string  the state of the shared limits
-- KEYS[n]  rates     string  the state of each row's key; a key may come several times
-- ARGV[1]  settings  string  the caller's limits: `name,kind,count,perMs,burst,shared …`
-- ARGV[n]  calls     string  rows `op amount waitMs`. `c`: use the amount of tokens if they fit within waitMs; `p`: use them in any case;
--                            `r`: return them; `b`: block the key for the amount of milliseconds; `x`: forget the key
--
-- Reply     {limits, row, …}  the stored limits, empty if there are none, and a row `{code, left, resetMs, delayMs, limit}` for each call.
--                             Code 1: the tokens are used; 0: they do not fit; -1: more tokens than a limit ever has; -2: the call
--                             has to wait, and these limits cannot reserve an instant. After `p`, `r`, `b` and `x`, the code is 1 if
--                             one token fits, and 0 otherwise. `limit` is the position of the limit that refuses or delays the
--                             call, -1: a block. The row of a call that may wait and is not refused also has the states
--                             `key before, key after, all before, all after`
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local limits = KEYS[1]
local all = KEYS[2]
local rates = { unpack(KEYS, 3) }
local settings = ARGV[1]
local calls = { unpack(ARGV, 2) }

-- Rounds milliseconds up. More than 317 years would not fit into an expiry.
local function roundedUp(duration) return math.ceil(math.min(duration, 10000000000000)) end

-- Decides the usual command as `rates.lua` would: calls that do not wait, and one limit for each key, by gcra. To create the functions of
-- `rates.lua` takes longer than that. Nil if the command is another one; nothing has changed then.
local function decideUsual()
  local terms, count, perMs, burst = string.match(settings, '^[^, ]*,(g,(%d+),(%d+),(%d+)),0$')
  if not terms or redis.call('GET', limits) then return nil end
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local max, perMilli, most = math.max, count * 1000000 / perMs, burst * 1000000
  local levels, changed, reply = {}, {}, { '' }
  for _, rate in ipairs(rates) do
    if not levels[rate] then
      local state, last, use = redis.call('GET', rate), micros, 0
      if state then
        last, use = string.match(state, '^1 (%d+) 0 g,%d+,%d+,%d+,(%d+)$')
      end
      if not last then return nil end
      levels[rate] = max(0, use - max(0, micros - last) * perMilli / 1000)
    end
  end
  for at = 1, #calls, 3 do
    local op, amount, waitMs = unpack(calls, at, at + 2)
    if op ~= 'c' or waitMs ~= '0' then return nil end
    local rate = rates[#reply]
    local level, wanted, code = levels[rate], amount * 1000000, 0
    local excess = level + wanted - most - 1
    if wanted > most then
      code = -1
    elseif excess <= 0 then
      code, level, changed[rate] = 1, level + wanted, true
      levels[rate] = level
    end
    local left, full, delay = (most - level + 2) / 1000000, level / perMilli, max(0, excess / perMilli)
    reply[#reply + 1] = { code, max(0, left - left % 1), roundedUp(full), roundedUp(delay), delay > 0 and 1 or 0 }
  end
  local head = string.format('1 %.0f 0 %s,', micros, terms)
  for _, rate in ipairs(rates) do
    if changed[rate] then
      local level = levels[rate]
      local life = roundedUp(level / perMilli) + 1
      redis.call('SET', rate, head .. string.format('%.0f', math.ceil(level)), 'PX', life)
      changed[rate] = nil
    end
  end
  return reply
end
local decided = decideUsual()
if decided then return decided end

-- Libraries

local micros = readMicros()
local stamp = digits(micros)
local rules, stored = readLimits(redis.call('GET', limits), settings)
if not rules then return redis.error_reply(layoutError) end
local shared = openState(rules.hasShared and redis.call('GET', all) or nil, micros, rules, true)
if not shared then return redis.error_reply(layoutError) end
local states = {}
for _, rate in ipairs(rates) do
  states[rate] = states[rate] or openState(redis.call('GET', rate), micros, rules, false)
  if not states[rate] then return redis.error_reply(layoutError) end
end

-- A call that waits for its key's limit would keep a shared limit from all other keys until it starts.
local canWait = true
for _, rule in ipairs(rules) do
  canWait = canWait and rule.letter == 'g' and rule.isShared == rules[1].isShared
end

local function change(name, state, amount, start)
  for at, rule in ipairs(rules) do
    local owner = rule.isShared and shared or state
    rule.kind[name](rule, owner.uses[at], amount, start)
    owner.isChanged = true
  end
  state.isGone = false
end

local function run(state, op, amount, waitMs)
  local delay, last, left, full, canFit = measure(rules, state, shared, op == 'c' and amount or 0)
  local code, before, sharedBefore = 1, nil, nil
  if op == 'c' and not canFit then
    code = -1
  elseif op == 'c' and delay > waitMs * 1000 then
    code = 0
  elseif op == 'c' and delay > 0 and not canWait then
    code = -2
  elseif op == 'c' then
    if waitMs > 0 then
      before, sharedBefore = stateText(rules, state, stamp), stateText(rules, shared, stamp)
    end
    change('take', state, amount, delay)
  elseif op == 'p' then
    change('take', state, amount, 0)
  elseif op == 'r' then
    change('give', state, amount)
  elseif op == 'b' then
    state.block, state.isChanged, state.isGone = amount * 1000, true, false
  else
    local fresh = openState(nil, micros, rules, false)
    state.block, state.uses, state.isChanged, state.isGone = 0, fresh.uses, true, true
  end
  if op == 'c' and code == 1 then
    local _
    _, _, left, full = measure(rules, state, shared, 0)
  elseif op ~= 'c' then
    delay, last, left, full = measure(rules, state, shared, 1)
    code = delay > 0 and 0 or 1
  end
  local row = { code, left, toMs(full), toMs(delay), last }
  if before then
    local after, sharedAfter = stateText(rules, state, stamp), stateText(rules, shared, stamp)
    for _, text in ipairs({ before, after, sharedBefore, sharedAfter }) do
      row[#row + 1] = text
    end
  end
  return row
end

local reply = { stored }
for at = 1, #calls, 3 do
  local op, amount, waitMs = unpack(calls, at, at + 2)
  reply[#reply + 1] = run(states[rates[#reply]], op, tonumber(amount), tonumber(waitMs))
end

local function save(key, state)
  if not state.isChanged then return end
  local text, life = stateText(rules, state, stamp)
  redis.call('SET', key, text, 'PX', digits(toMs(life) + 1))
end
save(all, shared)
local gone = {}
for rate, state in pairs(states) do
  if state.isGone then
    gone[#gone + 1] = rate
  else
    save(rate, state)
  end
end
if #gone > 0 then redis.call('DEL', unpack(gone)) end
return reply
