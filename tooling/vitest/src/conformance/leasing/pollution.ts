import { describe, expect, it } from "vitest";
import { drawing, guardPrototypes, hostileNames } from "../../hostile.js";
import { rejection } from "../../promises.js";
import type { Leasing } from "./leasing.js";

const runs = 1_500;

/** Hostile property names in input and stored data change no prototype. */
export const describeLeasePollution = (leasing: Leasing): void => {
  guardPrototypes();

  describe("hostile property names change no prototype", () => {
    it("in the text of a lease: it is refused, or read for its own fields alone", async () => {
      const { below, oneOf, json } = drawing(3);
      const leaser = leasing.make();
      const held = await leaser.acquire();
      const saved = JSON.parse(held.serialise()) as Record<string, unknown>;
      await held.release();
      const counts = new Map<string, number>();
      for (let run = 0; run < runs; run++) {
        const fields = Object.entries(saved)
          .filter(() => below(12) > 0)
          .map(([field, value]) => [field, below(12) > 0 ? JSON.stringify(value) : json()]);
        // All fields of a lease, but only on a prototype.
        const hostile = below(2) === 0 ? JSON.stringify(saved) : json();
        fields.splice(below(fields.length + 1), 0, [oneOf(hostileNames), hostile]);
        const text = `{${fields.map(([field, value]) => `${JSON.stringify(field)}:${value!}`).join()}}`;
        const { code, constructor, resource } = (await rejection(leaser.resume(text))) as {
          readonly code?: string;
          readonly resource?: string;
        };
        const kind = code ?? constructor.name;
        expect(["TypeError", "RangeError", leasing.lostCode], text).toContain(kind);
        expect(resource, text).toBe(code && (JSON.parse(text) as { name: string }).name);
        counts.set(kind, (counts.get(kind) ?? 0) + 1);
      }
      // Both outcomes occurred often.
      for (const kind of ["TypeError", leasing.lostCode]) expect(counts.get(kind)).toBeGreaterThan(runs / 10);
    });

    it("in the text of a lease that goes on: what only a prototype has does not count", async () => {
      const leaser = leasing.make();
      const text = (await leaser.acquire()).serialise();
      expect(JSON.parse(text)).not.toHaveProperty("maxHoldMs");
      const resumed = await leaser.resume(text.replace(/}$/, `,"__proto__":{"maxHoldMs":60000}}`));
      expect(JSON.parse(resumed.serialise())).not.toHaveProperty("maxHoldMs");
      expect(await (await leaser.resume(text)).release()).toBe("released");
    });

    it("in names and labels that are used", async () => {
      for (const hostile of hostileNames) {
        const leaser = leasing.labelled(hostile, hostile);
        const first = await leaser.acquire();
        expect(await leaser.tryAcquire()).toBeNull();
        const waiter = await leaser.enqueue();
        const label = leasing.label(hostile);
        expect(await leaser.inspect()).toMatchObject({ holders: [label], queue: [label] });
        expect(await first.release()).toBe("released");
        expect(await (await waiter.promise).release()).toBe("released");
      }
    });
  });
};
