import { useRedis } from "@kit/testing";
import { describeLeaseOptions } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";

describeLeaseOptions(leasingOf(redis));

describe("resume", () => {
  it("carries all settings of the lease", async () => {
    const settings = { leaseMs: 4_000, renew: false, maxHoldMs: 60_000, holder: "mover" };
    const lease = await fixture.make().acquire(name, settings);
    await lease.extend(5_000);
    const saved = JSON.parse(lease.serialise()) as Record<string, unknown>;
    expect(saved).toEqual({
      kit: "lock",
      layout: 1,
      name,
      token: lease.token,
      fencingToken: lease.fencingToken,
      ...settings,
      leaseMs: 5_000,
      // The rest of it.
      maxHoldMs: expect.any(Number) as number,
    });
    expect(saved["maxHoldMs"]).toBeGreaterThan(50_000);
    expect(saved["maxHoldMs"]).toBeLessThan(60_000);
    const resumed = await fixture.make({ leaseMs: 1_000, holder: "other" }).resume(lease.serialise());
    expect(resumed).toMatchObject({ name, holder: "mover", leaseMs: 5_000, fencingToken: lease.fencingToken });
    expect(await resumed.release()).toBe("released");
  });
});
