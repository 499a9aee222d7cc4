-- leases.lua - the leases of a mailbox: which messages were delivered, to which worker and until when.
--
-- Needs int
-- Defines recipientOf, openMailbox, saveMailbox
--
-- The hash has one field for each message that is being handled, its sequence: `deadline deliveries token`. The empty field
-- is `cursor seenAt epoch`: no message after the cursor was ever delivered; all messages up to it are either here or acknowledged.
-- For a message that was delivered more than once, the field becomes `acked token`: the lease under which it was acknowledged.

-- The position of the recipient, and the rest of its record. Nil: it is not a recipient. The record exists as long as the mailbox,
-- so an evicted record is rebuilt, from the zset of positions if there is one.
local function recipientOf(state, member, positions)
  local position, rest, epoch = string.match(redis.call('HGET', member, state.name) or '', '^(%d+) (%d+ %S+ (.*))$')
  if epoch == state.id then return tonumber(position), rest end
  if not state.isMailbox then return nil end
  return tonumber(redis.call('ZSCORE', positions, state.name) or 0), '0 0-0 ' .. state.id
end

-- `leases` and `acked` in order of sequence. Entries of another epoch, and leases of messages up to the position, are in `stale`.
local function openMailbox(mailbox, epoch, position)
  local stored = redis.call('HGETALL', mailbox)
  local box = { cursor = position, seenAt = 0, leases = {}, acked = {}, stale = {} }
  local isOurs = false
  for i = 1, #stored, 2 do
    if stored[i] == '' then
      local cursor, seenAt, storedEpoch = string.match(stored[i + 1], '^(%d+) (%d+) (.*)$')
      box.seenAt = tonumber(seenAt)
      isOurs = storedEpoch == epoch
      if isOurs then box.cursor = math.max(position, tonumber(cursor)) end
    end
  end
  for i = 1, #stored, 2 do
    local sequence = tonumber(stored[i])
    local ackedBy = sequence and string.match(stored[i + 1], '^acked (.*)$')
    if ackedBy and isOurs then
      box.acked[#box.acked + 1] = { sequence = sequence, token = ackedBy }
    elseif sequence and isOurs and sequence > position then
      local deadline, deliveries, token = string.match(stored[i + 1], '^(%d+) (%d+) (.*)$')
      box.leases[#box.leases + 1] =
        { sequence = sequence, deadline = tonumber(deadline), deliveries = tonumber(deliveries), token = token }
    elseif sequence then
      box.stale[#box.stale + 1] = stored[i]
    end
  end
  for _, found in ipairs({ box.leases, box.acked }) do
    table.sort(found, function(one, other)
      return one.sequence < other.sequence
    end)
  end
  return box
end

-- Stores up to where messages were delivered, and that the recipient was here.
local function saveMailbox(mailbox, box, epoch, now)
  redis.call('HSET', mailbox, '', int(box.cursor) .. ' ' .. int(now) .. ' ' .. epoch)
end
