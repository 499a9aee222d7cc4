import { KitError } from "@kit/core";
import { useRedis } from "@kit/testing";
import { drawing, guardPrototypes, hostileNames, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

const runs = 1_500;
guardPrototypes();

describe("hostile property names change no prototype", () => {
  it("in the text of a lease: it is refused, or read for its own fields alone", async () => {
    const { below, oneOf, json } = drawing(3);
    const lock = fixture.make();
    const lease = await lock.acquire("chest");
    const saved = JSON.parse(lease.serialise()) as Record<string, unknown>;
    await lease.release();
    const counts = new Map<string, number>();
    for (let run = 0; run < runs; run++) {
      const fields = Object.entries(saved)
        .filter(() => below(12) > 0)
        .map(([name, value]) => [name, below(12) > 0 ? JSON.stringify(value) : json()]);
      const at = below(fields.length + 1);
      // All of a lease, where only a prototype has it.
      fields.splice(at, 0, [oneOf(hostileNames), below(2) === 0 ? JSON.stringify(saved) : json()]);
      const text = `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${value!}`).join()}}`;
      const error = (await rejection(lock.resume(text))) as Error;
      const kind = KitError.is(error) ? error.code : error.constructor.name;
      expect(["TypeError", "RangeError", "KIT_LOCK_LOST"], text).toContain(kind);
      const { resource } = error as { resource?: unknown };
      expect(resource, text).toBe(kind === "KIT_LOCK_LOST" ? (JSON.parse(text) as { name: string }).name : undefined);
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
    }
    // Both ways were taken often.
    for (const kind of ["TypeError", "KIT_LOCK_LOST"]) expect(counts.get(kind)).toBeGreaterThan(runs / 10);
  });

  it("in what is stored: a holder is text, whatever it says", async () => {
    const { json } = drawing(4);
    const lock = fixture.make();
    const { lease } = fixture.keysOf("chest");
    for (let run = 0; run < runs; run++) {
      const holder = json();
      await fixture.db.set(lease, `token|${holder}`, "PX", 10_000);
      expect(await lock.inspect("chest")).toMatchObject({ state: "held", holder });
    }
  });

  it("in names and holders of locks that are used", async () => {
    const lock = fixture.make();
    for (const name of hostileNames) {
      const first = await lock.acquire(name, { holder: name });
      expect(await lock.tryAcquire(name)).toBeNull();
      const second = lock.acquire(name);
      await fixture.untilWaiting(name, 1);
      expect(await lock.inspect(name)).toMatchObject({ holder: name, waiters: 1 });
      expect(await first.release()).toBe("released");
      expect(await (await second).release()).toBe("released");
    }
  });
});
