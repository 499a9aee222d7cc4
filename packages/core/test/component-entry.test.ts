import { expect, it } from "vitest";
import { entrySchema } from "../src/config/component-entry.js";

it("refuses an address with a password, and one of many colons in one pass", () => {
  const issueOf = (url: string): unknown => {
    const verdict = entrySchema["~standard"].validate({ url });
    return "issues" in verdict ? verdict.issues?.[0]?.message : undefined;
  };
  const password = /^contains a password/;
  for (const url of ["redis://:pw@h", "redis://u:pw@h:1", "redis://u:pw/x@h", "pw:x@", "u:@"])
    expect(issueOf(url)).toMatch(password);
  for (const url of ["redis://user@h:1/2", "rediss://h:1", "unix:/run/redis.sock"])
    expect(issueOf(url)).toBeUndefined();
  // Where each colon begins a search to the end, this takes longer than a test may.
  expect(issueOf(`redis://${":".repeat(700_000)}`)).toMatch(/^must be an address/);
});
