-- rates.lua - how much of each limit a key has used.
-- A state is `1 micros block` and an entry for each limit: its kind, count, perMs and burst, and its use. `micros` is the server's clock at the
-- last change, and all times in a state count from it. If the clock is set back, nothing is freed early, and nothing is blocked for longer.
--
-- Defines layoutError, digits, toMs, readMicros, readLimits, openState, measure, stateText

local layoutError = 'KIT_LAYOUT the limiter was written by a newer version, or is damaged'
local million = 1000000
local function digits(number) return string.format('%.0f', math.ceil(number)) end

-- Microseconds as milliseconds, rounded up. More than 317 years would not fit into an expiry.
local function toMs(duration) return math.ceil(math.min(duration / 1000, 10000000000000)) end

local function readMicros()
  local time = redis.call('TIME')
  return time[1] * million + time[2]
end

local slices = 11

-- What a kind of limit does: `open` reads its use and moves it on by `elapsed` microseconds, and `text` writes it. `delay` is the time until
-- `tokens` fit, `left` how many fit now, and `full` the time until nothing is in use. Only the wanted kinds are made, because that takes
-- most of the time of a short script.
local function kindOf(letter)
  -- gcra: `level` is in millionths of a token. They flow off evenly, `speed` in a microsecond.
  if letter == 'g' then
    return {
      open = function(limit, data, elapsed)
        return { level = math.max(0, (tonumber(data) or 0) - elapsed * limit.speed) }
      end,
      -- One millionth covers the rounding of `text`.
      delay = function(limit, use, tokens)
        return math.max(0, use.level + (tokens - limit.burst) * million - 1) / limit.speed
      end,
      -- `start`: the tokens are used that much later. What has flowed off until then cannot be used earlier.
      take = function(limit, use, tokens, start)
        use.level = math.max(use.level, start * limit.speed) + tokens * million
      end,
      give = function(_, use, tokens) use.level = math.max(0, use.level - tokens * million) end,
      left = function(limit, use) return math.floor(limit.burst - (use.level - 2) / million) end,
      full = function(limit, use) return use.level / limit.speed end,
      text = function(use) return digits(use.level) end,
    }
  end
  -- fixed-window: `used` tokens in a window that ends in `ends` microseconds. It starts with its first call.
  if letter == 'f' then
    return {
      open = function(_, data, elapsed)
        local ends, used = string.match(data or '', '^(%d+):(%d+)$')
        local rest = (tonumber(ends) or 0) - elapsed
        return rest > 0 and { ends = rest, used = tonumber(used) } or { ends = 0, used = 0 }
      end,
      delay = function(limit, use, tokens) return use.used + tokens > limit.burst and use.ends or 0 end,
      take = function(limit, use, tokens)
        if use.ends == 0 then use.ends = limit.perMicros end
        use.used = use.used + tokens
      end,
      give = function(_, use, tokens) use.used = math.max(0, use.used - tokens) end,
      left = function(limit, use) return limit.burst - use.used end,
      full = function(_, use) return use.ends end,
      text = function(use) return digits(use.ends) .. ':' .. digits(use.used) end,
    }
  end
  -- sliding-window: `age` is the age of the newest slice, which is a tenth of the window. [1] has its tokens, [2] the tokens of the slice before.
  -- A call counts until its whole slice is older than the window: in eleven slices.
  if letter == 's' then
    return {
      open = function(limit, data, elapsed)
        local use, found = { age = 0, sum = 0 }, {}
        for number in string.gmatch(data or '', '%d+') do
          found[#found + 1] = tonumber(number)
        end
        local age = (found[1] or 0) + elapsed
        local shift = math.floor(age / limit.slice)
        for at = 1, slices do
          use[at] = at > shift and found[at - shift + 1] or 0
          use.sum = use.sum + use[at]
        end
        if use.sum > 0 then use.age = age - shift * limit.slice end
        return use
      end,
      delay = function(limit, use, tokens)
        local excess = use.sum + tokens - limit.burst
        local at = slices
        while excess > 0 and at > 0 do
          excess = excess - use[at]
          at = at - 1
        end
        return at == slices and 0 or (slices - at) * limit.slice - use.age
      end,
      take = function(_, use, tokens)
        use[1] = use[1] + tokens
        use.sum = use.sum + tokens
      end,
      give = function(_, use, tokens)
        for at = 1, slices do
          local given = math.min(tokens, use[at])
          use[at] = use[at] - given
          use.sum = use.sum - given
          tokens = tokens - given
        end
      end,
      left = function(limit, use) return limit.burst - use.sum end,
      full = function(limit, use)
        for at = 1, slices do
          if use[at] > 0 then return (slices + 1 - at) * limit.slice - use.age end
        end
        return 0
      end,
      text = function(use)
        local text, zeros = digits(use.age), ''
        for at = 1, slices do
          zeros = zeros .. ':' .. digits(use[at])
          if use[at] > 0 then
            text = text .. zeros
            zeros = ''
          end
        end
        return text
      end,
    }
  end
end

-- The limits that apply: the stored ones, or else the caller's. Replies with them and the stored text, or nil if that is damaged.
local function readLimits(stored, settings)
  local layout, text = '1', ''
  if stored then
    layout, text = string.match(stored, '^(%d+) %d+ (.*)$')
  end
  if layout ~= '1' then return nil end
  local limits, kinds = {}, {}
  for terms, kind, count, perMs, burst, shared in
    string.gmatch(text == '' and settings or text, ',((%a),(%d+),(%d+),(%d+)),([01])')
  do
    kinds[kind] = kinds[kind] or kindOf(kind)
    if not kinds[kind] then return nil end
    limits[#limits + 1] = {
      letter = kind,
      kind = kinds[kind],
      terms = terms,
      burst = tonumber(burst),
      speed = count * 1000 / perMs,
      perMicros = perMs * 1000,
      slice = perMs * 100,
      isShared = shared == '1',
    }
    limits.hasShared = limits.hasShared or shared == '1'
  end
  -- Without any limit everything would be allowed.
  return #limits > 0 and limits or nil, text
end

-- The use of one key, or of all keys together (`isShared`), at `micros`. Nil if the text is damaged.
local function openState(text, micros, limits, isShared)
  local elapsed, state, nextEntry = 0, { block = 0, uses = {} }, nil
  if text then
    local layout, last, block, rest = string.match(text, '^(%d+) (%d+) (%d+)(.*)$')
    if layout ~= '1' then return nil end
    elapsed = math.max(0, micros - last)
    state.block = math.max(0, block - elapsed)
    nextEntry = string.gmatch(rest, ' (%S+)')
  end
  for at, limit in ipairs(limits) do
    local entry, letter, use = nextEntry and nextEntry() or nil, nil, nil
    if limit.isShared == isShared then
      if entry then
        letter, use = string.match(entry, '^(%a),%d+,%d+,%d+,([%d:]+)$')
      end
      -- A limit whose kind has changed starts with all tokens.
      state.uses[at] = limit.kind.open(limit, letter == limit.letter and use or nil, elapsed)
    end
  end
  return state
end

-- Measures a call of `tokens`: the time until they fit, the limit that refuses them for the longest time (0: none, -1: a block), how many tokens
-- fit now, the time until nothing is in use, and whether they can ever fit.
local function measure(limits, key, all, tokens)
  local delay, last, left, full, canFit = key.block, key.block > 0 and -1 or 0, math.huge, key.block, true
  for at, limit in ipairs(limits) do
    local kind, use = limit.kind, (limit.isShared and all or key).uses[at]
    local own = kind.delay(limit, use, tokens)
    if own > delay then
      delay, last = own, at
    end
    left = math.min(left, kind.left(limit, use))
    full = math.max(full, kind.full(limit, use))
    canFit = canFit and tokens <= limit.burst
  end
  return delay, last, math.max(0, key.block > 0 and 0 or left), full, canFit
end

-- The text of a state at `micros`, as text, and its life in microseconds.
local function stateText(limits, state, micros)
  local text, life = '1 ' .. micros .. ' ' .. digits(state.block), state.block
  for at, limit in ipairs(limits) do
    local use = state.uses[at]
    if use then
      text = text .. ' ' .. limit.terms .. ',' .. limit.kind.text(use)
      life = math.max(life, limit.kind.full(limit, use))
    else
      text = text .. ' -'
    end
  end
  return text, life
end
