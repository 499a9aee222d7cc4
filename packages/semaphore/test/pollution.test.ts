import { KitError } from "@kit/core";
import { closeTimeoutMs } from "@kit/core/toolkit";
import { useRedis } from "@kit/testing";
import { drawing, guardPrototypes, hostileNames, polluted, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { resolveAcquire, inspectedTenant, newLimits, semaphoreSettings, resolveTry } from "../src/options.js";
import { fixtureOf, enqueue, name } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const runs = 1_000;
guardPrototypes();

describe("hostile property names change no prototype", () => {
  it("in options: any name that is no option is refused, and no object is an option's value", () => {
    const { below, oneOf, json } = drawing(1);
    const settings = semaphoreSettings({ permits: 1 });
    const checks = [
      (options: object) => semaphoreSettings(Object.assign(options, { permits: 1 })),
      (options: object) => resolveAcquire(options, settings),
      (options: object) => resolveTry(options, settings),
      (options: object) => newLimits(options, settings),
      inspectedTenant,
      closeTimeoutMs,
    ];
    const names = ["weight", "tenant", "priority", "permitsPerTenant", "leaseMs", "holder"];
    for (let run = 0; run < runs; run++) {
      const sound = below(2) === 0 ? '"leaseMs":1000,' : "";
      for (const text of [
        `{${sound}${JSON.stringify(oneOf(hostileNames))}:${json()}}`,
        `{${JSON.stringify(oneOf(names))}:{${JSON.stringify(oneOf(hostileNames))}:${json()}}}`,
      ])
        for (const check of checks) expect(() => check(JSON.parse(text) as object), text).toThrow(TypeError);
    }
  });

  it("in the text of a permit: it is refused, or read for its own fields alone", async () => {
    const { below, oneOf, json } = drawing(3);
    const semaphore = fixture.make();
    const permit = await semaphore.acquire();
    const saved = JSON.parse(permit.serialise()) as Record<string, unknown>;
    await permit.release();
    const counts = new Map<string, number>();
    for (let run = 0; run < runs; run++) {
      const fields = Object.entries(saved)
        .filter(() => below(12) > 0)
        .map(([field, value]) => [field, below(12) > 0 ? JSON.stringify(value) : json()]);
      // All of a permit, where only a prototype has it.
      const hostile = below(2) === 0 ? JSON.stringify(saved) : json();
      fields.splice(below(fields.length + 1), 0, [oneOf(hostileNames), hostile]);
      const text = `{${fields.map(([field, value]) => `${JSON.stringify(field)}:${value!}`).join()}}`;
      const error = (await rejection(semaphore.resume(text))) as Error;
      const kind = KitError.is(error) ? error.code : error.constructor.name;
      expect(["TypeError", "RangeError", "KIT_PERMIT_LOST"], text).toContain(kind);
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
    }
    // Both ways were taken often.
    for (const kind of ["TypeError", "KIT_PERMIT_LOST"]) expect(counts.get(kind)).toBeGreaterThan(runs / 10);
  });

  it("in tenants, holders and names of semaphores that are used", async () => {
    for (const hostile of hostileNames) {
      const group = fixture.make({ name: hostile, permits: 9, permitsPerTenant: 1, holder: hostile });
      const permit = await group.acquire({ tenant: hostile });
      expect(await group.tryAcquire({ tenant: hostile })).toBeNull();
      const waiter = await enqueue(group, { tenant: hostile });
      expect(await group.inspect()).toMatchObject({ holders: [{ holder: hostile, tenant: hostile }], waiters: 1 });
      expect(await permit.release()).toBe("released");
      expect(await (await waiter.promise).release()).toBe("released");
    }
  });
});

describe("a prototype that somebody else polluted", () => {
  it("gives no option to anybody", async () => {
    expect(polluted("leaseMs", 77, () => semaphoreSettings({ permits: 1 }).leaseMs)).toBe(10_000);
    const semaphore = fixture.make({ permits: 5 });
    const permit = await polluted("weight", 3, () => semaphore.acquire());
    expect([permit.name, permit.weight, await fixture.used()]).toEqual([name, 1, 1]);
  });
});
