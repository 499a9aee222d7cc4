-- takes.lua - reads records of takes.
-- A record is a take id, and a line for each entry that was taken.
--
-- Needs takeIdOf
-- Defines heldOf

-- The entries of a record that are still leased, and their members of `leases`.
local function heldOf(leases, record)
  local all, entries, members = {}, {}, {}
  for entry in string.gmatch(string.sub(record, 14), '[^\n]+') do all[#all + 1] = takeIdOf(record) .. entry end
  for i, ends in ipairs(#all > 0 and redis.call('ZMSCORE', leases, unpack(all)) or {}) do
    if ends then
      members[#members + 1] = all[i]
      entries[#members] = string.sub(all[i], 13)
    end
  end
  return entries, members
end
