import { defineScript } from "../src/kernel/script/script.js";

/** Not idempotent: every run adds. */
export const append = defineScript({
  name: "test.append",
  source: `-- append.lua - add text to a string.
--
-- KEYS[1]  key    string  what grows
-- ARGV[1]  value  string  what is added
--
-- Reply     n  its length
local key = KEYS[1]
local value = ARGV[1]
local length = redis.call("APPEND", key, value)
redis.call("PEXPIRE", key, 60000)
return length
`,
  keys: ["key"],
  args: ["value"],
  reply: Number,
});

/** Idempotent by its operation id. */
export const addOnce = defineScript({
  name: "test.addOnce",
  source: `-- addOnce.lua - count an operation, once.
--
-- KEYS[1]  key  zset    the operations, by arrival
-- ARGV[1]  op   string  operation id
--
-- Reply     n  its number
local key = KEYS[1]
local op = ARGV[1]
local known = redis.call("ZSCORE", key, op)
if known then
  return tonumber(known)
end
local number = redis.call("ZCARD", key) + 1
redis.call("ZADD", key, number, op)
redis.call("PEXPIRE", key, 60000)
return number
`,
  keys: ["key"],
  args: ["op"],
  idempotent: true,
  reply: Number,
});

/** Changes nothing. */
export const read = defineScript({
  name: "test.read",
  source: `-- read.lua - what a string holds.
--
-- KEYS[1]  key  string  what is read
--
-- Reply     text  its content, or nothing
local key = KEYS[1]
return redis.call("GET", key) or ""
`,
  keys: ["key"],
  args: [],
  readonly: true,
  reply: String,
});

/** The same, byte for byte. */
export const readBytes = defineScript({
  name: "test.read",
  source: read.source,
  keys: ["key"],
  args: [],
  readonly: true,
  bytes: true,
  reply: (raw) => raw as Buffer,
});

const renewing = (idempotent: boolean) =>
  defineScript({
    name: "test.renew",
    source: `-- renew.lua - write a string anew, in a way that a slot that moves does not forgive.
--
-- KEYS[1]  key    string  what is written
-- ARGV[1]  value  string  its content
--
-- Reply     value
local key = KEYS[1]
local value = ARGV[1]
redis.call("DEL", key)
redis.call("SET", key, value, "PX", 60000)
return value
`,
    keys: ["key"],
    args: ["value"],
    idempotent,
    reply: String,
  });

/** Touches a key that it has removed; sent once. */
export const renewOnce = renewing(false);
/** The same, and a lost reply is asked for again. */
export const renewAgain = renewing(true);

/** Rest operands: writes the first argument into the first key, each further one into its own. */
export const putAll = defineScript({
  name: "test.putAll",
  source: `-- putAll.lua - write several strings.
--
-- KEYS[1]  first   string  the first
-- KEYS[n]  others  string  the others
-- ARGV[1]  ttlMs   integer how long they live, milliseconds
-- ARGV[n]  values  string  the value of each
--
-- Reply     [n, n, ...]  the lengths
local first = KEYS[1]
local others = { unpack(KEYS, 2) }
local ttlMs = ARGV[1]
local values = { unpack(ARGV, 2) }
redis.call("SET", first, values[1], "PX", ttlMs)
local lengths = { #values[1] }
for index, other in ipairs(others) do
  redis.call("SET", other, values[index + 1], "PX", ttlMs)
  lengths[index + 1] = #values[index + 1]
end
return lengths
`,
  keys: ["first", "...others"],
  args: ["ttlMs", "...values"],
  idempotent: true,
  reply: (raw) => (raw as unknown[]).map(Number),
});

/** Gives its arguments back, each of which carries several values. */
export const echo = defineScript({
  name: "test.echo",
  source: `-- echo.lua - give the arguments back.
--
-- KEYS[1]  key    string  says where it runs
-- ARGV[n]  parts  string  \`sign ms owner\`
--
-- Reply     the arguments
local key = KEYS[1]
local parts = ARGV
redis.call("EXISTS", key)
return parts
`,
  keys: ["key"],
  args: ["...parts: sign ms owner"],
  readonly: true,
  reply: (raw) => raw as string[],
});

/** Writes rows of several arguments into rows of several keys. */
export const putRows = defineScript({
  name: "test.putRows",
  source: `-- putRows.lua - write several pairs of strings.
--
-- KEYS[n]  places  string  \`left right\`: two for each row
-- ARGV[n]  rows    string  \`text other ttlMs\`: what comes left, what comes right, and how long both live, milliseconds
--
-- Reply     n  how many rows there were
local places = KEYS
local rows = ARGV
local place = 1
for at = 1, #rows, 3 do
  local left, right = unpack(places, place, place + 1)
  local text, other, ttlMs = unpack(rows, at, at + 2)
  place = place + 2
  redis.call("SET", left, text, "PX", ttlMs)
  redis.call("SET", right, other, "PX", ttlMs)
end
return #rows / 3
`,
  keys: ["...places[left right]"],
  args: ["...rows[text other ttlMs]"],
  idempotent: true,
  reply: Number,
});
