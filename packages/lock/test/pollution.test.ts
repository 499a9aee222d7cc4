import { KitError } from "@kit/core";
import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { afterEach, describe, expect, it } from "vitest";
import { acquireTerms, closeTimeoutMs, lockSettings, tryTerms } from "../src/options.js";
import { benchOf, rejection } from "./harness.js";

const redis = useRedis(vitest);
const bench = benchOf(redis);

const runs = 1_500;
const hostileNames = ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "__defineGetter__"];

/** Draws the same sequence in every run (mulberry32). */
const drawing = (seed: number) => {
  let state = seed;
  const below = (limit: number): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
  const oneOf = <T>(values: readonly T[]): T => values[below(values.length)]!;
  /** JSON whose objects have hostile names, down to three levels. */
  const json = (depth = 3): string => {
    const leaf = ['"polluted"', "true", "1", "null", '"lock"', "[]"];
    if (depth === 0 || below(3) === 0) return oneOf(leaf);
    const names = [...hostileNames, "polluted", "leaseMs", "kit"];
    const fields = Array.from({ length: 1 + below(3) }, () => `${JSON.stringify(oneOf(names))}:${json(depth - 1)}`);
    return below(5) === 0 ? `[{${fields.join()}}]` : `{${fields.join()}}`;
  };
  return { below, oneOf, json };
};

/** What the built-in prototypes have, to be compared member by member. */
const members = (): unknown[] =>
  [Object.prototype, Array.prototype, Function.prototype].flatMap((prototype) =>
    Reflect.ownKeys(prototype).flatMap((key) => {
      const { value, get, set } = Object.getOwnPropertyDescriptor(prototype, key)!;
      return [key, value as unknown, get, set];
    }),
  );
const untouched = members();
const expectUntouched = (): void => {
  const now = members();
  expect(now.length).toBe(untouched.length);
  expect(now.every((member, index) => Object.is(member, untouched[index]))).toBe(true);
};
afterEach(expectUntouched);

describe("hostile property names change no prototype", () => {
  it("in options: any name that is no option is refused, and named", () => {
    const { below, oneOf, json } = drawing(1);
    const settings = lockSettings({});
    const checks = [lockSettings, closeTimeoutMs, (options: object) => acquireTerms(options, settings)];
    for (let run = 0; run < runs; run++) {
      const name = oneOf(hostileNames);
      const sound = below(2) === 0 ? '"leaseMs":1000,' : "";
      const text = `{${sound}${JSON.stringify(name)}:${json()}}`;
      for (const check of [...checks, (options: object) => tryTerms(options, settings)])
        expect(() => check(JSON.parse(text) as object), text).toThrow(TypeError);
    }
  });

  it("in an option's value: it is refused", () => {
    const { oneOf, json } = drawing(2);
    const names = ["leaseMs", "renew", "maxHoldMs", "holder", "isolate", "deadlineMs", "maxWaiters"];
    for (let run = 0; run < runs; run++) {
      const text = `{${JSON.stringify(oneOf(names))}:{${JSON.stringify(oneOf(hostileNames))}:${json()}}}`;
      expect(() => lockSettings(JSON.parse(text) as object), text).toThrow(TypeError);
    }
  });

  it("in the text of a lease: it is refused, or read for its own fields alone", async () => {
    const { below, oneOf, json } = drawing(3);
    const lock = bench.make();
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
    const lock = bench.make();
    const { lease } = bench.keysOf("chest");
    for (let run = 0; run < runs; run++) {
      const holder = json();
      await bench.db.set(lease, `token|${holder}`, "PX", 10_000);
      expect(await lock.inspect("chest")).toMatchObject({ state: "held", holder });
    }
  });

  it("in names and holders of locks that are used", async () => {
    const lock = bench.make();
    for (const name of hostileNames) {
      const first = await lock.acquire(name, { holder: name });
      expect(await lock.tryAcquire(name)).toBeNull();
      const second = lock.acquire(name);
      await bench.untilWaiting(name, 1);
      expect(await lock.inspect(name)).toMatchObject({ holder: name, waiters: 1 });
      expect(await first.release()).toBe("released");
      expect(await (await second).release()).toBe("released");
    }
  });
});

describe("a prototype that somebody else polluted", () => {
  const polluted = <T>(name: string, value: unknown, look: () => T): T => {
    Object.defineProperty(Object.prototype, name, { value, configurable: true });
    try {
      return look();
    } finally {
      Reflect.deleteProperty(Object.prototype, name);
    }
  };

  it("gives no option to an acquire without options", () => {
    const lock = bench.make();
    const acquiring = polluted("leaseMs", 77, () => lock.acquire("chest"));
    return expect(acquiring).resolves.toMatchObject({ leaseMs: 10_000 });
  });

  it("gives no option to an object of options", () => {
    expect(polluted("leaseMs", 77, () => lockSettings({}).leaseMs)).toBe(10_000);
  });
});
