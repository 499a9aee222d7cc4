-- take.lua - counts calls against the limits of their keys, in the order of the rows.
--
-- KEYS[1]  limits    string  limits that replace the callers': `1 changedAt text`
-- KEYS[2]  all       string  the state of the shared limits
-- KEYS[n]  rates     string  the state of each row's key; a key may come several times
-- ARGV[1]  settings  string  the caller's limits: `name,kind,count,perMs,burst,shared …`
-- ARGV[n]  calls     string  rows `op amount waitMs`. `c`: take so many tokens, at the latest in waitMs; `p`: take them in any case; `r`: give
--                            them back; `b`: block the key for so many milliseconds; `x`: forget the key
--
-- Reply     {limits, row, …}  the stored limits, empty if there are none; of each row `{code, left, resetMs, delayMs, limit}`. Code 1:
--                             taken, of other rows than `c`: one token fits now; 0: not; -1: more tokens than the limit ever has;
--                             -2: it would have to wait, which needs gcra, and limits that are all shared or none. `limit` is the number of the limit that refuses or delays it, -1: a block.
--                             If it was taken with a waitMs, also the states `key before, key after, all before, all after`
--           error KIT_LAYOUT  written by a newer version, or damaged; nothing changed
local limits = KEYS[1]
local all = KEYS[2]
local rates = { unpack(KEYS, 3) }
local settings = ARGV[1]
local calls = { unpack(ARGV, 2) }

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

-- A call that waits for a limit of its own would keep a shared limit from all other keys until it starts.
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
