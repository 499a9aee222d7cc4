import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { linearizable, type Model, type Operation } from "../src/linearizable.js";
import { seeded } from "@tooling/lab";
import { type MutexCall, mutexWithFence } from "../src/workloads/lock/mutex.js";

type Call =
  | { readonly kind: "read"; readonly value: number }
  | { readonly kind: "write"; readonly value: number }
  | { readonly kind: "swap"; readonly from: number; readonly to: number; readonly isDone: boolean };

/** A number that can be read, written, and swapped if it is what one thinks. */
const register: Model<number, Call> = {
  initial: 0,
  step: (state, call) => {
    switch (call.kind) {
      case "read":
        return call.value === state ? state : undefined;
      case "write":
        return call.value;
      case "swap":
        return (call.from === state) !== call.isDone ? undefined : call.isDone ? call.to : state;
    }
  },
  key: String,
};

const apply = (state: number, random: () => number): [Call, number] => {
  const roll = random();
  const value = Math.floor(random() * 5);
  if (roll < 0.4) return [{ kind: "read", value: state }, state];
  if (roll < 0.7) return [{ kind: "write", value }, value];
  const from = random() < 0.6 ? state : Math.floor(random() * 5);
  const isDone = from === state;
  return [{ kind: "swap", from, to: value, isDone }, isDone ? value : state];
};

/**
 * Calls that took effect one after the other, at the instants 1, 2, 3 and so on, each somewhere within its span, which
 * overlaps with up to `overlap` others on either side. Some never heard how it ended: of them, some had no effect.
 */
const aHistory = (seed: number, length: number, overlap: number, unknown = 0): Operation<Call>[] => {
  const random = seeded(seed);
  let state = 0;
  return Array.from({ length }, (_, index) => {
    const [call, after] = apply(state, random);
    const isUnknown = random() < unknown;
    const hasEffect = !isUnknown || random() < 0.5;
    if (hasEffect) state = after;
    const at = index + 1;
    const startedAt = at - random() * overlap;
    return { call, startedAt, endedAt: isUnknown ? Infinity : at + random() * overlap };
  });
};

const isLinearizable = (operations: readonly Operation<Call>[]): boolean | undefined =>
  linearizable(register, operations).isLinearizable;

const anOperation = (call: Call, startedAt: number, endedAt: number): Operation<Call> => ({ call, startedAt, endedAt });
const write = (value: number): Call => ({ kind: "write", value });
const read = (value: number): Call => ({ kind: "read", value });

describe("linearizable", () => {
  it("accepts every history that some order explains", () => {
    fc.assert(
      fc.property(
        fc.integer(),
        fc.integer({ min: 0, max: 120 }),
        fc.double({ min: 0, max: 6, noNaN: true }),
        (seed, length, overlap) => {
          expect(isLinearizable(aHistory(seed, length, overlap))).toBe(true);
        },
      ),
      { numRuns: 300 },
    );
  });

  it("accepts histories with calls of unknown end, whether they took effect or not", () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 0, max: 60 }), (seed, length) => {
        expect(isLinearizable(aHistory(seed, length, 3, 0.15))).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it("does not depend on the order in which the calls are given", () => {
    fc.assert(
      fc.property(fc.integer(), fc.boolean(), (seed, isSpoilt) => {
        const operations = aHistory(seed, 40, 3);
        if (isSpoilt) operations.splice(20, 1, anOperation(read(99), 20, 21));
        const shuffled = operations.toSorted((a, b) => ((a.startedAt * 7_919) % 1) - ((b.startedAt * 7_919) % 1));
        expect(isLinearizable(shuffled)).toBe(isLinearizable(operations));
      }),
    );
  });

  it("agrees with trying every order of a small history", () => {
    const explains = (operations: readonly Operation<Call>[], state = 0): boolean =>
      operations.every(({ endedAt }) => endedAt === Infinity) ||
      operations.some((next, index) => {
        const others = operations.toSpliced(index, 1);
        if (others.some(({ endedAt }) => endedAt < next.startedAt)) return false;
        const after = register.step(state, next.call);
        return after !== undefined && explains(others, after);
      });
    const value = fc.integer({ min: 0, max: 2 });
    const call: fc.Arbitrary<Call> = fc.oneof(
      fc.record({ kind: fc.constant("read" as const), value }),
      fc.record({ kind: fc.constant("write" as const), value }),
      fc.record({ kind: fc.constant("swap" as const), from: value, to: value, isDone: fc.boolean() }),
    );
    const operation = fc
      .tuple(call, fc.nat(20), fc.option(fc.nat(8)))
      .map(([one, startedAt, length]) => anOperation(one, startedAt, length === null ? Infinity : startedAt + length));
    let wrong = 0;
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 6 }), (operations) => {
        const expected = explains(operations);
        if (!expected) wrong++;
        expect(isLinearizable(operations)).toBe(expected);
      }),
      { numRuns: 2_000 },
    );
    expect(wrong).toBeGreaterThan(100);
  });

  it("refuses each of 100 histories in which a call read a value that was never written", () => {
    for (let seed = 1; seed <= 100; seed++) {
      const operations = aHistory(seed, 60, 3);
      const random = seeded(-seed);
      const reads = operations.flatMap(({ call }, index) => (call.kind === "read" ? [index] : []));
      const index = reads[Math.floor(random() * reads.length)] ?? 0;
      const { startedAt, endedAt } = operations[index] as Operation<Call>;
      operations[index] = anOperation(read(99), startedAt, endedAt);
      expect(isLinearizable(operations), `seed ${String(seed)}`).toBe(false);
    }
  });

  it("refuses each of 100 histories with a read of a value that was overwritten before the read started", () => {
    for (let seed = 1; seed <= 100; seed++) {
      const operations = aHistory(seed, 40, 2);
      const end = 100;
      operations.push(anOperation(write(7), end, end + 1), anOperation(write(8), end + 2, end + 3));
      operations.push(anOperation(read(7), end + 4, end + 5));
      expect(isLinearizable(operations), `seed ${String(seed)}`).toBe(false);
    }
  });

  it("lets a call of unknown end take effect at any time after its start, and not before", () => {
    const late = anOperation(write(5), 10, Infinity);
    expect(isLinearizable([late, anOperation(read(0), 11, 12), anOperation(read(5), 50, 51)])).toBe(true);
    expect(isLinearizable([late, anOperation(read(5), 11, 12), anOperation(read(0), 50, 51)])).toBe(false);
    expect(isLinearizable([late, anOperation(read(5), 1, 9)])).toBe(false);
    expect(isLinearizable([late, anOperation(read(0), 11, 12)])).toBe(true);
  });

  it("gives up undecided at its limit of steps, and returns their number", () => {
    const operations = aHistory(1, 100, 5);
    expect(linearizable(register, operations, 20)).toEqual({ isLinearizable: undefined, steps: 21 });
  });
});

describe("the mutex with fencing tokens", () => {
  const anOrder = (...calls: readonly MutexCall[]): boolean | undefined =>
    linearizable(
      mutexWithFence,
      calls.map((call, at) => ({ call, startedAt: at, endedAt: at + 0.5 })),
    ).isLinearizable;

  it("has one holder at a time", () => {
    expect(anOrder({ kind: "acquire", fence: 1 }, { kind: "release", fence: 1 }, { kind: "acquire", fence: 2 })).toBe(
      true,
    );
    expect(anOrder({ kind: "acquire", fence: 1 }, { kind: "acquire", fence: 2 })).toBe(false);
  });

  it("gives larger tokens only", () => {
    expect(anOrder({ kind: "acquire", fence: 2 }, { kind: "release", fence: 2 }, { kind: "acquire", fence: 2 })).toBe(
      false,
    );
    expect(anOrder({ kind: "acquire", fence: 2 }, { kind: "release", fence: 2 }, { kind: "acquire", fence: 1 })).toBe(
      false,
    );
  });

  it("never replies `not held` to the holder", () => {
    expect(anOrder({ kind: "acquire", fence: 1 }, { kind: "not held", fence: 1 })).toBe(false);
    expect(anOrder({ kind: "acquire", fence: 1 }, { kind: "end", fence: 1 }, { kind: "not held", fence: 1 })).toBe(
      true,
    );
  });
});
