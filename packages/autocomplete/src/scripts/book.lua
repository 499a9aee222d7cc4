-- book.lua - the head of a contact book: its version, and the operations that it has seen.
--
-- Defines layoutError, opError, openBook
--
-- All inputs are parameters.
local layoutError = 'KIT_LAYOUT a newer version wrote it'
local opError = 'ERR the op belongs to another change. Pass a new op'
local mostOps = 8

-- The book at the start of this call; nil for an unknown layout. Reading the sizes fails on a key of another type before
-- anything is changed.
local function openBook(book, contacts, cards, blocked)
  local layout, version, ops = unpack(redis.call('HMGET', book, 'layout', 'version', 'ops'))
  if layout and layout ~= '1' then return nil end
  redis.call('ZCARD', contacts)
  redis.call('HLEN', cards)
  redis.call('ZCARD', blocked)
  local time = redis.call('TIME')
  local state = { version = version or '', micros = time[1] * 1000000 + time[2] }
  ops = ops or ''

  -- Each operation id is stored with a part of its change's hash. Nil: the id is that of another change.
  function state.isDone(op, ...)
    state.op = op .. '/' .. string.sub(redis.sha1hex(table.concat({ ... }, '\0')), 1, 3)
    if string.find(' ' .. ops, ' ' .. state.op .. ' ', 1, true) then return true end
    if string.find(' ' .. ops, ' ' .. op .. '/', 1, true) then return nil end
    return false
  end

  -- Records a change, by a version that was never used before, even if the book was lost.
  function state.save(keepMs)
    local kept = {}
    for one in string.gmatch(state.op .. ' ' .. ops, '%S+') do
      if #kept < mostOps then kept[#kept + 1] = one end
    end
    state.version = string.format('%.0f', math.max(state.micros, (tonumber(version or 0) or 0) + 1))
    redis.call('HSET', book, 'layout', '1', 'version', state.version, 'ops', table.concat(kept, ' ') .. ' ')
    for _, key in ipairs({ book, contacts, cards, blocked }) do
      if keepMs > 0 then
        redis.call('PEXPIRE', key, keepMs)
      else
        redis.call('PERSIST', key)
      end
    end
    return state.version
  end

  return state
end
