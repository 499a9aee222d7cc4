-- changes.lua - finds the chats of a user in which something may be new for a reader; changes nothing.
--
-- KEYS[n]  keys       any      for each shard: activity, the user's chats, heads
-- ARGV[1]  user       string   the member that reads
-- ARGV[2]  limit      integer  how many chats of a shard to find
-- ARGV[3]  names      integer  1: also reply with the names of all chats of the user
-- ARGV[4]  moves      integer  1: also reply with the positions of members that moved
-- ARGV[n]  positions  string   the reader's position in each shard. Empty: none yet. `a ID`: it has read the activity up to
--                              ID. `w CURSOR ID SINCE`: it walks all chats, will then have read ID, and has read what is
--                              older than SINCE, epoch milliseconds; `-`: it compares heads with the member's positions
--                              After these, in pairs: the number of a shard, and a chat of it that was delivered in part to
--                              a reader that compares
--
-- Reply     {{position, isMore, {chat, membership, head, start, …}, {left, …}, {name, …}, {{chat, member, position}, …}}, …}  for each
--           shard: the reader's next position; whether there is more to look through; chats that may have news, each with where to
--           start: `SEQUENCE`, `SEQUENCE@MS` for the earlier of a position and a time, or `SEQUENCE>MS`, where a chat that was
--           created after that time is another one than the reader had; chats that the user has left; all chats; positions of
--           members that moved. 0 instead: nothing happened there since, and no names were requested
local keys = KEYS
local user = ARGV[1]
local limit = tonumber(ARGV[2])
local names = ARGV[3]
local moves = ARGV[4]
local positions = { unpack(ARGV, 5) }
local shards = #keys / 3
local mostEntries = 500

-- Libraries

local function membershipOf(value)
  local position, from, joinedMs, joinedCount = string.match(value or '', '^(%d+) (%d+) (%d+)%-(%d+) ')
  return tonumber(position), tonumber(from), tonumber(joinedMs), tonumber(joinedCount)
end

local function lastActivity(activity)
  local last = redis.call('XREVRANGE', activity, '+', '-', 'COUNT', 1)[1]
  return last and last[1] or '0-0'
end

-- Adds the position that an entry announces to the moved positions, if it is the user's own or all members may see it. An entry
-- from before the user joined is of an earlier chat of that name.
local function addMoved(moved, entry, membership)
  local fields = entry[2]
  if fields[3] ~= 'p' then return end
  local ms, count = partsOf(entry[1])
  local _, _, joinedMs, joinedCount = membershipOf(membership)
  if not joinedMs or joinedMs > ms or joinedMs == ms and joinedCount > count then return end
  if fields[4] == user or fields[8] then moved[#moved + 1] = { fields[2], fields[4], fields[6] } end
end

-- The changes after an entry of the activity. 0: there are none. Nil: the entry is missing, so others may be missing as well.
local function follow(activity, member, heads, id)
  local entries = redis.call('XRANGE', activity, id, '+', 'COUNT', mostEntries + 1)
  local first = entries[1]
  if not first then return id == '0-0' and 0 or nil end
  if first[1] ~= id then return nil end
  if not entries[2] then return 0 end
  local seenMs, seenCount = partsOf(id)
  local chats, firstSent, isLeft, isDeleted, order = {}, {}, {}, {}, {}
  for i = 2, #entries do
    local fields = entries[i][2]
    local chat = fields[2]
    if not order[chat] then
      chats[#chats + 1] = chat
      order[chat] = #chats
    end
    if fields[3] == 's' then
      if not firstSent[chat] then firstSent[chat] = tonumber(fields[4]) end
    elseif fields[3] == 'l' or fields[3] == 'd' then
      for k = 4, #fields, 2 do
        if fields[k] == user then
          isLeft[chat] = true
          isDeleted[chat] = isDeleted[chat] or fields[3] == 'd'
        end
      end
    end
  end
  local memberships = redis.call('HMGET', member, unpack(chats))
  local records = redis.call('HMGET', heads, unpack(chats))
  local found, left, done, isTaken, moved = {}, {}, id, {}, {}
  for i = 2, #entries do
    local chat = entries[i][2][2]
    local index = order[chat]
    if not isTaken[chat] then
      local position, from, joinedMs, joinedCount = membershipOf(memberships[index])
      local start
      if position and (joinedMs > seenMs or joinedMs == seenMs and joinedCount > seenCount) then
        start = int(from) .. (isDeleted[chat] and '>0' or '')
      elseif position and firstSent[chat] then
        start = int(math.max(firstSent[chat] - 1, from))
      elseif not position and isLeft[chat] then
        left[#left + 1] = chat
      end
      if start then
        if #found >= 4 * limit then break end
        for _, value in ipairs({ chat, memberships[index], records[index] or '', start }) do
          found[#found + 1] = value
        end
      end
      isTaken[chat] = true
    end
    if moves == '1' then addMoved(moved, entries[i], memberships[index]) end
    done = entries[i][1]
  end
  local isMore = (#entries > mostEntries or done ~= entries[#entries][1]) and 1 or 0
  return { 'a ' .. done, isMore, found, left, {}, moved }
end

-- A chat that was delivered in part continues, even if another reader of the member acknowledges it meanwhile.
local begun = {}
for i = 1, shards do
  begun[i] = {}
end
for i = shards + 1, #positions, 2 do
  begun[tonumber(positions[i])][positions[i + 1]] = true
end

-- A part of all chats, and those of them that have news.
local function walk(member, heads, cursor, id, since, isBegun)
  local page = redis.call('HSCAN', member, cursor, 'COUNT', limit)
  local values, chats, found = page[2], {}, {}
  for i = 1, #values, 2 do
    chats[#chats + 1] = values[i]
  end
  local records = #chats > 0 and redis.call('HMGET', heads, unpack(chats)) or {}
  for i, chat in ipairs(chats) do
    local position, from, joinedMs = membershipOf(values[2 * i])
    local head, headAt = string.match(records[i] or '', '^(%d+) %d+ (%d+) ')
    local start
    if since == '-' then
      if position and (not head or tonumber(head) > position or isBegun[chat]) then start = int(position) end
    elseif position then
      local earliest = since - clockSkewMs
      if joinedMs >= earliest then
        start = int(from) .. (tonumber(since) > 0 and '>' .. since or '')
      elseif not head or tonumber(headAt) >= earliest then
        start = int(position) .. '@' .. int(earliest)
      end
    end
    if start then
      for _, value in ipairs({ chat, values[2 * i], records[i] or '', start }) do
        found[#found + 1] = value
      end
    end
  end
  if page[1] == '0' then
    local left = {}
    for chat in pairs(isBegun) do
      if redis.call('HEXISTS', member, chat) == 0 then left[#left + 1] = chat end
    end
    return { 'a ' .. id, 0, found, left, {}, {} }
  end
  return { 'w ' .. page[1] .. ' ' .. id .. ' ' .. since, 1, found, {}, {}, {} }
end

local reply = {}
for i = 1, shards do
  local position = positions[i]
  local activity, member, heads = keys[3 * i - 2], keys[3 * i - 1], keys[3 * i]
  local seen = string.sub(position, 1, 2) == 'a ' and string.sub(position, 3)
  local result = seen and follow(activity, member, heads, seen)
  if not result then
    local cursor, id, since = string.match(position, '^w (%d+) (%d+%-%d+) (%S+)$')
    if not cursor then
      cursor, id, since = '0', lastActivity(activity), seen and string.match(seen, '^%d+') or '-'
      -- The token is from a server whose clock was ahead: everything counts as created after it.
      if seen and since - clockSkewMs > readClock() then since = '1' end
    end
    result = walk(member, heads, cursor, id, since, begun[i])
  end
  if names == '1' then
    if result == 0 then result = { position, 0, {}, {}, {}, {} } end
    result[5] = redis.call('HKEYS', member)
  end
  reply[i] = result
end
return reply
