-- contents.lua - which contents begin in the same way.
--
-- A field of a hash names the last ones of one beginning, each between line feeds. A content is listed by its longest beginning. If that has
-- more than 1 KiB, a field `near …` lists it by its first KiB as well, up to nine contents: more show that the first KiB is a header.
--
-- Defines mostNear, listContent, listNear, unlistContent, startOf, withBeginning
local mostListed, mostNear = 8192, 8

local function listContent(key, field, content)
  local all = redis.call('HGET', key, field) or '\n'
  if string.find(all, '\n' .. content .. '\n', 1, true) then return end
  all = all .. content .. '\n'
  if #all > mostListed then all = string.gsub(all, '^\n[^\n]*', '') end
  redis.call('HSET', key, field, all)
end

--- Lists one more than are compared: it shows that there are too many.
local function listNear(key, field, content)
  local _, count = string.gsub(redis.call('HGET', key, field) or '', '[^\n]+', '')
  if count <= mostNear then listContent(key, field, content) end
end

--- The hash must have another field.
local function unlistContent(key, field, content)
  local all = redis.call('HGET', key, field) or ''
  local first, last = string.find(all, '\n' .. content .. '\n', 1, true)
  if not first then return end
  all = string.sub(all, 1, first) .. string.sub(all, last + 1)
  if all == '\n' then redis.call('HDEL', key, field) else redis.call('HSET', key, field, all) end
end

--- The field that lists the contents with the beginning of a prefix.
local function startOf(text)
  return 'content ' .. string.match(text, '^[^-]*%-?[^-]*')
end

--- The identity of a file ends with the length and hash of its beginning. The identity of a copy has the same end.
local function withBeginning(change, sources, source)
  local start = string.match(source, ' (%d+%-%x+)$')
  if start then change(sources, 'text ' .. start, source) end
  local near = string.match(source, ' (1024%-%x+) ')
  if near then (change == listContent and listNear or change)(sources, 'near ' .. near, source) end
end
