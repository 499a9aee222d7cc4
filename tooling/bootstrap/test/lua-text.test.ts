import { expect, it } from "vitest";
import { withoutComments } from "../../build/preset.mjs";

it("builds scripts without comments, except for their names and what core reads of the header", () => {
  const lua = `-- take.lua - takes a job, if there is one.
--
-- KEYS[1]  waiting  list    the jobs
-- ARGV[1]  count    integer how many
--
-- Reply  the jobs
local waiting = KEYS[1]

-- The rest needs the clock.
-- Libraries
  -- At most one.
local job = redis.call('RPOP', waiting) -- nil: none
return job == '--' and '-- x' or job`;
  expect(withoutComments(lua)).toBe(`-- take.lua
-- KEYS[1] - list
local waiting = KEYS[1]
-- Libraries
local job = redis.call('RPOP', waiting) -- nil: none
return job == '--' and '-- x' or job`);
});
