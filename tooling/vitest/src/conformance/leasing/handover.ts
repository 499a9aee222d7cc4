import { describe, expect, it } from "vitest";
import { aborted, rejection } from "../../promises.js";
import { clock } from "../../time.js";
import type { Leasing } from "./leasing.js";

/** A lease that moves from one object to another. */
export const describeLeaseHandover = (leasing: Leasing): void => {
  const { name, make, ground } = leasing;

  describe("handOver", () => {
    it("leaves the lease to whoever resumes it, whatever becomes of the first object", async () => {
      const giver = make({ leaseMs: 2_000 });
      const taker = make();
      const given = await giver.acquire();
      const taken = await taker.resume(given.handOver());
      expect(await given.release()).toBe("not-held");
      await given[Symbol.asyncDispose]();
      await giver.close({ timeoutMs: 0 });
      expect(given.signal.aborted).toBe(false);
      expect(await taker.tryAcquire()).toBeNull();
      expect(taken.isHeld).toBe(true);
      expect(await taken.release()).toBe("released");
      expect(await leasing.used()).toBe(0);
    });

    it("ends what the first handle may do, and the lease runs out when nobody resumes it", async () => {
      const leaser = make();
      const held = await leaser.acquire({ leaseMs: 1_000 });
      held.handOver();
      expect(held.isHeld).toBe(false);
      const lost = { code: leasing.lostCode, reason: "handed-over" };
      expect(() => held.assertHeld()).toThrow(expect.objectContaining(lost));
      expect(await rejection(held.extend())).toMatchObject(lost);
      expect(() => held.handOver()).toThrow(expect.objectContaining(lost));
      await leaser.using(() => undefined, { waitMs: 20_000 });
      expect(await leasing.used()).toBe(0);
    });

    it("gives the text out of using, which does not take the lease for a lost one", async () => {
      const text = await make().using((held) => held.handOver());
      expect(await (await make().resume(text)).release()).toBe("released");
    });
  });

  describe("resume", () => {
    it("carries all settings of the lease", async () => {
      const settings = { leaseMs: 4_000, renew: false, maxHoldMs: 60_000, holder: "mover" };
      const held = await make().acquire(settings);
      await held.extend(5_000);
      const saved = JSON.parse(held.serialise()) as Record<string, unknown>;
      expect(saved).toEqual({
        kit: leasing.what,
        layout: 1,
        name,
        token: held.token,
        ...leasing.facts(held),
        ...settings,
        leaseMs: 5_000,
        // The rest of it.
        maxHoldMs: expect.any(Number) as number,
      });
      expect(saved["maxHoldMs"]).toBeGreaterThan(50_000);
      expect(saved["maxHoldMs"]).toBeLessThan(60_000);
      const resumed = await make({ leaseMs: 1_000, holder: "other" }).resume(held.serialise());
      expect(resumed).toMatchObject({ name, token: held.token, holder: "mover", leaseMs: 5_000 });
      expect(leasing.facts(resumed)).toEqual(leasing.facts(held));
      expect(await resumed.release()).toBe("released");
    });

    it("goes on with what is left of maxHoldMs", async () => {
      const startedAt = clock();
      const hold = { leaseMs: 2_000, maxHoldMs: 1_500 };
      const held = await make().acquire(hold);
      await ground.eventually(() => expect(clock() - startedAt).toBeGreaterThan(500));
      // Its time begins only now. It would end first if that of the other began anew.
      const fresh = await make({ name: "fresh" }).acquire(hold);
      const resumed = await make().resume(held.handOver());
      const ended: string[] = [];
      resumed.signal.addEventListener("abort", () => ended.push("resumed"));
      fresh.signal.addEventListener("abort", () => ended.push("fresh"));
      await aborted(fresh.signal);
      expect(ended).toEqual(["resumed", "fresh"]);
      expect(resumed.signal.reason).toMatchObject({ reason: "max-hold" });
      expect(clock() - startedAt).toBeGreaterThan(1_400);
    });
  });
};
