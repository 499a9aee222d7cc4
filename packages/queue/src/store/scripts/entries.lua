-- entries.lua - entries of jobs.
-- An entry is the form of a job in lists of work: its id, or `!priority!id` if the priority is not 0, or `!priority@group!id` if it has a group.
--
-- Defines behind, parked, optionOf, withOption, decoded, boundedPriority, idOf, groupOf, entryOf, entryOfBlob, leasedEntry, placedAs, placedEntry, takeIdOf, parseRecord, nameOf
-- These functions read any stored text, even one that no call would accept: an error here would come after the first write of a script.

-- In `delayed`, the score of a job that waits until another job ends is its due instant plus `behind`, see `successor.lua`. The score of a
-- job that waits for its children is its due instant plus `parked`, see `flow.lua`.
local behind, parked = 1000000000000000, 2000000000000000

-- The letters of the options in the header of a stored job; see `words.ts`.
local optionLetters = { expires = 'e', flow = 'f', group = 'g', latestKey = 'k', successor = 'n', priority = 'p', uniqueKey = 'u' }

-- The value of an option of a stored job; nil if it has none.
local function optionOf(blob, name)
  return string.match(blob or '', '^%S+ %S+[^\n]- ' .. optionLetters[name] .. '(%S*)')
end

-- The blob with another value of an option in its header; nil: without the option.
local function withOption(blob, name, value)
  local head, others, payload = string.match(blob, '^(%S+ %S+)([^\n]*)(\n.*)$')
  if not head then return blob end
  local letter = ' ' .. optionLetters[name]
  return head .. (value and letter .. value or '') .. string.gsub(others, letter .. '%S+', '', 1) .. payload
end

local function decoded(text)
  return (string.gsub(text, '%%(%x%x)', function(digits) return string.char(tonumber(digits, 16)) end))
end

-- A priority as a number. Beyond the bounds, the scores of two priorities would overlap.
local function boundedPriority(text)
  return math.max(-1048575, math.min(1048575, tonumber(text) or 0))
end

local function idOf(entry)
  if string.byte(entry) ~= 33 then return entry, 0 end
  local priority, id = string.match(entry, '^!(-?%d+)@?[^!]*!(.*)$')
  if not id then return entry, 0 end
  return id, boundedPriority(priority)
end

-- The group and the id of a job that has a group; nil: it has none.
local function groupOf(entry)
  if string.byte(entry) ~= 33 then return nil end
  return string.match(entry, '^!%-?%d+@([^!]+)!(.*)$')
end

local function entryOf(id, priority, group)
  if group then return string.format('!%d@', priority) .. group .. '!' .. id end
  return priority == 0 and id or string.format('!%d!', priority) .. id
end

-- The entry of a stored job, by the priority and the group in its header.
local function entryOfBlob(id, blob)
  return entryOf(id, boundedPriority(optionOf(blob, 'priority')), optionOf(blob, 'group'))
end

-- The entry behind the take id of 12 characters in a member of `leases`.
local function leasedEntry(member)
  return string.sub(member, 13)
end

-- A member of `suspended` or `grouped`: the jobs of a name or group sort by priority, then by number. Jobs that came in order have numbers
-- of 10^15 or more.
local function placedAs(name, entry, number)
  local _, priority = idOf(entry)
  return string.format('%s %07d%016.0f ', name, priority + 1048576, number) .. entry
end

-- The entry behind the name and the place in such a member.
local function placedEntry(member)
  return string.match(member, '^%S+ %S+ (.*)$') or member
end

local function takeIdOf(member)
  return string.sub(member, 1, 12)
end

-- The parts of a record in `failures`: attempts, crashes, the last error as JSON, and the take id under which the job last started while it
-- had one crash left. A record that cannot be read counts as none.
local function parseRecord(record)
  local attempts, crashes, begun, last = string.match(record or '', '^(%d+)\t(%d+) ?(%w*)\t(.*)$')
  if not attempts then return '0', 0, '', '' end
  return attempts, tonumber(crashes), last, begun
end

-- The name in a stored job, percent-encoded; nil if there is no such job.
local function nameOf(blob)
  return string.match(blob or '', '^%S+ (%S+)')
end
