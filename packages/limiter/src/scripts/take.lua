-- take.lua - counts calls against the limits of their keys, in the order of the rows.
--
-- KEYS[1]  limits    string  limits that replace the callers': `1 changedAt text`
-- KEYS[2]  all       string  the state of the shared limits
-- KEYS[n]  rates     string  the state of each row's key; a key may occur several times
-- ARGV[1]  settings  string  the caller's limits: `name,kind,count,perMs,burst,shared …`
-- ARGV[n]  calls     string  `op amount waitMs` for each row. `c`: use the amount of tokens if they fit within waitMs; `p`: use them in any
--                            case; `r`: return them; `b`: block the key for the amount of milliseconds; `x`: forget the key. Without calls,
--                            each row is `c 1 0`
--
-- Reply     level             if all rows are `c` without a wait, and a key has one limit, by gcra: the millionths of a token in use; below 0
--                             if the call is refused. Several rows: {level, …}
--           {limits, row, …}  the stored limits, empty if there are none, and a row `{code, left, resetMs, delayMs, limit}` for each call.
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

-- Decides the usual command as `rates.lua` would: calls that do not wait, and one limit for each key, by gcra. Creating the
-- functions of `rates.lua` takes longer than this. Returns nil for any other command; then it has changed nothing.
local function decideUsual()
  local match, max, ceil = string.match, math.max, math.ceil
  local terms, count, perMs, burst = match(settings, '^[^, ]*,(g,(%d+),(%d+),(%d+)),0$')
  if not terms or redis.call('GET', limits) then return nil end
  local time = redis.call('TIME')
  local micros, speed, most = time[1] * 1000000 + time[2], count * 1000 / perMs, burst * 1000000
  local levels, changed, reply = {}, {}, {}
  for at, rate in ipairs(rates) do
    local level, tokens = levels[rate], 1
    if not level then
      local state, last, use = redis.call('GET', rate), micros, 0
      if state then
        last, use = match(state, '^1 (%d+) 0 g,%d+,%d+,%d+,(%d+)$')
      end
      if not last then return nil end
      level = max(0, use - max(0, micros - last) * speed)
    end
    if #calls > 0 then
      tokens = match(calls[at], '^c (%d+) 0$')
    end
    local wanted = tokens and tokens * 1000000
    -- A level beyond these digits is not exact as a number of a reply.
    if not wanted or wanted > most or level > 9e15 then return nil end
    if level + wanted <= most + 1 then
      level = ceil(level + wanted)
      changed[rate], reply[at] = level, level
    else
      reply[at] = -ceil(level)
    end
    levels[rate] = level
  end
  local head = string.format('1 %.0f 0 %s,', micros, terms)
  for rate, level in pairs(changed) do
    -- More than 317 years would not fit into an expiry.
    local life = ceil(math.min(level / speed / 1000, 10000000000000)) + 1
    redis.call('SET', rate, head .. string.format('%.0f', level), 'PX', life)
  end
  return reply[2] and reply or reply[1]
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
for at, rate in ipairs(rates) do
  local op, amount, waitMs = string.match(calls[at] or 'c 1 0', '^(%a) (%d+) (%d+)$')
  reply[at + 1] = run(states[rate], op, tonumber(amount), tonumber(waitMs))
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
