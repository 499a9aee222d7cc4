-- moments.lua - count, mean, squared distances, extremes and sum of a sample: as text, and of two samples combined.
--
-- Defines momentNames, momentsOf, textsOf, combined

local huge = math.huge

local momentNames = { 'count', 'mean', 'm2', 'min', 'max', 'sum', 'compensation', 'rest' }

-- Text that converts back to the same double, even on servers whose C library writes infinity differently.
local function text(number)
  if number == huge then return 'inf' elseif number == -huge then return '-inf' end
  return string.format('%.17g', number)
end

-- A damaged number counts as 0: an error would end the script between two series of the call.
local function number(value)
  if value == 'inf' then return huge elseif value == '-inf' then return -huge end
  return tonumber(value) or 0
end

-- Moments from their texts, in the order of the names.
local function momentsOf(...)
  local texts, moments = { ... }, {}
  for place, name in ipairs(momentNames) do
    moments[name] = number(texts[place])
  end
  return moments
end

-- Their texts in the same order, and each text after its name, as HSET needs them.
local function textsOf(moments)
  local texts, fields = {}, {}
  for place, name in ipairs(momentNames) do
    texts[place] = text(moments[name])
    fields[2 * place - 1], fields[2 * place] = name, texts[place]
  end
  return texts, fields
end

-- Chan, Golub and LeVeque (1979): the moments of two samples combined.
local function combined(a, b)
  local count = a.count + b.count
  local delta = b.mean - a.mean + (b.rest - a.rest)
  local share = b.count / count
  local step = delta * share
  local mean = a.mean + step
  local rest = a.rest + (step - (mean - a.mean))
  -- The distance between two huge means of opposite sign exceeds the range of a double.
  if math.abs(delta) == huge then
    mean, rest = a.mean * (a.count / count) + b.mean * share, 0
  end
  local sum = a.sum + b.sum
  local larger, smaller = a.sum, b.sum
  if math.abs(larger) < math.abs(smaller) then larger, smaller = smaller, larger end
  -- Neumaier (1974): the part that adding the larger and the smaller has cut off.
  local compensation = a.compensation + b.compensation + ((larger - sum) + smaller)
  return {
    count = count,
    mean = mean,
    m2 = a.m2 + b.m2 + delta * delta * (a.count * share),
    min = math.min(a.min, b.min),
    max = math.max(a.max, b.max),
    sum = sum,
    compensation = math.abs(sum) == huge and 0 or compensation,
    rest = rest,
  }
end
