-- page.lua - reads a page from either end of a list of jobs, within bounds.
-- One call reads up to 1,000 entries and 4 MiB of jobs. If there is more, the page ends early, and the next page continues.
--
-- Defines page

-- `read` replies with the elements between two indices, and how many there are for each entry. `show` turns those of one entry into a list
-- for the reply, or nil, and says how many bytes it has read. Replies with the position of the next page, -1 at the end; and the lists.
local function page(from, start, count, read, show)
  local reply, shown, looked, bytes = { '' }, 0, 0, 0
  while shown < count do
    local some = math.min(100, 1000 - looked)
    if some == 0 or bytes > 4194304 then break end
    local low = start + looked
    local found, width
    if from == 'start' then found, width = read(low, low + some - 1)
    else found, width = read(-low - some, -low - 1) end
    local length = #found / width
    for i = 0, length - 1 do
      if shown == count or bytes > 4194304 then break end
      local at = width * (from == 'start' and i or length - 1 - i)
      local row, size = show(found[at + 1], width == 2 and found[at + 2] or '')
      looked, bytes = looked + 1, bytes + size
      if row then
        shown = shown + 1
        for _, value in ipairs(row) do reply[#reply + 1] = value end
      end
    end
    if looked - (low - start) == length and length < some then
      reply[1] = '-1'
      return reply
    end
  end
  reply[1] = string.format('%d', start + looked)
  return reply
end
