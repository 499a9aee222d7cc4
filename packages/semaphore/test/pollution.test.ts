import { KitError } from "@kit/core";
import { useRedis } from "@kit/testing";
import { drawing, guardPrototypes, hostileNames, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf, enqueue } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const runs = 1_000;
guardPrototypes();

describe("hostile property names change no prototype", () => {
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
