import { expect, it } from "vitest";
import { LeaseTerm } from "../src/leasing/term.js";

it("renews a grant that came late before it ends", () => {
  const now = performance.now();
  const resolved = { leaseMs: 10_000, renew: true, maxHoldMs: undefined, holder: "us" };
  const request = { name: "item", token: "token", resolved };
  const late = new LeaseTerm({ request, fencingToken: "1", grantedMs: 2_000, deadlineAt: now + 300 });
  expect(late.renewAt).toBeGreaterThan(now);
  expect(late.renewAt).toBeLessThan(now + 150);
  const prompt = new LeaseTerm({ request, fencingToken: "1", grantedMs: 2_000, deadlineAt: now + 1_990 });
  expect(prompt.renewAt).toBeGreaterThan(now + 600);
});
