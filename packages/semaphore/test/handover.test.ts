import { useRedis } from "@kit/testing";
import { aborted, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { PermitLostError } from "../src/index.js";
import { fixtureOf, name } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

describe("Permit.handOver", () => {
  it("leaves the permit to whoever resumes it, whatever becomes of the first object", async () => {
    const giver = fixture.make({ permits: 4, leaseMs: 2_000 });
    const taker = fixture.make({ permits: 4 });
    const given = await giver.acquire({ weight: 3 });
    const taken = await taker.resume(given.handOver());
    expect(taken).toMatchObject({ weight: 3, tenant: null, token: given.token, leaseMs: 2_000 });
    expect(await given.release()).toBe("not-held");
    await giver.close({ timeoutMs: 0 });
    expect(given.signal.aborted).toBe(false);
    expect(await taker.tryAcquire({ weight: 2 })).toBeNull();
    expect([taken.isHeld, await taken.release(), await fixture.used()]).toEqual([true, "released", 0]);
  });

  it("gives the text out of using, which does not take the permit for a lost one", async () => {
    const text = await fixture.make({ permits: 1 }).using((permit) => permit.handOver());
    const resumed = await fixture.make({ permits: 1 }).resume(text);
    expect(await resumed.release()).toBe("released");
  });

  it("ends what the first handle may do, and the permit runs out when nobody resumes it", async () => {
    const semaphore = fixture.make({ permits: 1 });
    const permit = await semaphore.acquire({ leaseMs: 2_000 });
    permit.handOver();
    expect(permit.isHeld).toBe(false);
    expect(() => permit.assertHeld()).toThrow(PermitLostError);
    expect(await rejection(permit.extend())).toMatchObject({ reason: "handed-over" });
    expect(() => permit.handOver()).toThrow(PermitLostError);
    await semaphore.using(() => undefined, { waitMs: 20_000 });
    expect(await fixture.used()).toBe(0);
  });
});

describe("Semaphore.resume", () => {
  it("carries all settings of the permit, and goes on with what is left of maxHoldMs", async () => {
    const group = { permits: 9, permitsPerTenant: 5 };
    const settings = { leaseMs: 2_000, renew: true, maxHoldMs: 4_000, holder: "mover" };
    const permit = await fixture.make(group).acquire({ ...settings, weight: 2, tenant: "a|b ü" });
    const saved = JSON.parse(permit.serialise()) as Record<string, unknown>;
    expect(saved).toEqual({
      kit: "semaphore",
      layout: 1,
      name,
      token: permit.token,
      weight: 2,
      tenant: "a|b ü",
      ...settings,
      // The rest of it.
      maxHoldMs: expect.any(Number) as number,
    });
    expect(saved["maxHoldMs"]).toBeLessThan(4_000);
    const resumed = await fixture.make({ ...group, leaseMs: 9_000, holder: "other" }).resume(permit.handOver());
    expect(resumed).toMatchObject({ name, holder: "mover", leaseMs: 2_000, weight: 2, tenant: "a|b ü" });
    expect(await aborted(resumed.signal)).toMatchObject({ reason: "max-hold" });
  });

  it("takes only what is still held", async () => {
    const semaphore = fixture.make();
    const permit = await semaphore.acquire();
    const text = permit.serialise();
    await permit.release();
    expect(await rejection(semaphore.resume(text))).toMatchObject({ code: "KIT_PERMIT_LOST", reason: "expired" });
  });

  it("refuses the permit of another semaphore and terms that are none, and finds none of another tenant", async () => {
    const text = (await fixture.make().acquire()).serialise();
    expect(await rejection(fixture.make({ name: "other" }).resume(text))).toBeInstanceOf(TypeError);
    const forged = text.replace('"tenant":null', '"tenant":"a"');
    expect(await rejection(fixture.make().resume(forged))).toMatchObject({
      code: "KIT_PERMIT_LOST",
      reason: "expired",
    });
    for (const weight of [0, -1, 1.5, 1e10])
      expect(
        await rejection(fixture.make().resume(text.replace('"weight":1', `"weight":${String(weight)}`))),
      ).toBeInstanceOf(RangeError);
    expect(await fixture.used()).toBe(1);
  });
});
