-- spell.lua - the beginnings of names that differ from a text in one character.
--
-- KEYS[1]  rows        zset    `suffix NUL kind id`; alphabetical: with a tag before and the item behind
-- ARGV[1]  tag         string  before each row
-- ARGV[n]  characters  string  `character mistake` of each character of the text: itself; and 2: it may be wrong, 1: one may be missing
--                              before it, 0: neither
--
-- Reply     {truncated, text, …}  1: not all were looked for; then the beginnings, those that differ last first
--
-- Why: the sorted set is walked as a trie, one range for each character that follows in names. So no rows are stored for
-- mistyped texts.
local rows = KEYS[1]
local tag = ARGV[1]
local characters = { unpack(ARGV, 2) }

-- The limits of what one query reads and finds.
local mostRanges = 500
local mostTexts = 8

local ranges = 0
local function first(text, from)
  ranges = ranges + 1
  return redis.call('ZRANGEBYLEX', rows, from or '[' .. text, '(' .. text .. '\255', 'LIMIT', 0, 1)[1]
end

local parts, kinds, heads = {}, {}, { tag }
for at = 1, #characters, 2 do
  local character, mistake = unpack(characters, at, at + 1)
  parts[#parts + 1] = character
  kinds[#kinds + 1] = mistake
end
for at = 2, #parts do
  if not first(heads[at - 1] .. parts[at - 1]) then break end
  heads[at] = heads[at - 1] .. parts[at - 1]
end

local found, tried = { 0 }, {}
local function try(text)
  if tried[text] then return end
  tried[text] = true
  if first(text) then found[#found + 1] = string.sub(text, #tag + 1) end
end

for at = #heads, 1, -1 do
  local head, kind, nextKind = heads[at], kinds[at], kinds[at + 1]
  local rest = table.concat(parts, '', at)
  local behind = table.concat(parts, '', at + 1)
  if kind == '2' then
    try(head .. behind)
    if nextKind == '2' then try(head .. parts[at + 1] .. parts[at] .. table.concat(parts, '', at + 2)) end
  end
  local from = nil
  while kind ~= '0' do
    if ranges > mostRanges or #found > mostTexts then
      found[1] = 1
      return found
    end
    local row = first(head, from)
    if not row then break end
    local lead = string.byte(row, #head + 1)
    local length = lead < 0x80 and 1 or lead < 0xE0 and 2 or lead < 0xF0 and 3 or 4
    local character = string.sub(row, #head + 1, #head + length)
    -- The end of a name, or of its first form, is no character.
    if lead > 2 then
      -- Any replacement of the last character starts with the characters before it.
      if kind == '2' and behind ~= '' then try(head .. character .. behind) end
      try(head .. character .. rest)
    end
    from = '(' .. head .. character .. '\255'
  end
end
return found
