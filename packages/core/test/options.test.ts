import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  assertClient,
  booleanOption,
  choiceOption,
  clientSettings,
  closeTimeoutMs,
  integerOption,
  optionsObject,
  signalOption,
  textOption,
} from "../src/kernel/base/options.js";

describe("options", () => {
  it("come back when they are what they should be", () => {
    const { signal } = new AbortController();
    expect([
      integerOption("n", 3, 1),
      integerOption("n", 1, 1, 1),
      booleanOption("b", false),
      textOption("t", "x", 1),
      choiceOption("c", "b", ["a", "b"]),
      signalOption("s", signal),
      signalOption("s", undefined),
    ]).toEqual([3, 1, false, "x", "b", signal, undefined]);
  });

  it.each([
    [() => integerOption("leaseMs", 0, 1), RangeError, "Expected `leaseMs` to be an integer from 1, got `0` (number)"],
    [() => integerOption("n", 9, 1, 8), RangeError, "Expected `n` to be an integer from 1 to 8, got `9` (number)"],
    [
      () => integerOption("n", 2 ** 60, 1),
      RangeError,
      "Expected `n` to be an integer from 1, got `1152921504606847000` (number)",
    ],
    [() => integerOption("n", Number.NaN, 1), RangeError, "Expected `n` to be an integer from 1, got `NaN` (number)"],
    [
      () => integerOption("n", Number.POSITIVE_INFINITY, 1),
      RangeError,
      "Expected `n` to be an integer from 1, got `Infinity` (number)",
    ],
    [() => integerOption("n", "10", 1), TypeError, 'Expected `n` to be an integer from 1, got `"10"` (string)'],
    [() => choiceOption("c", "x", ["a", "b"]), RangeError, 'Expected `c` to be "a" or "b", got `"x"` (string)'],
    [() => choiceOption("c", 1, ["a", "b"]), TypeError, 'Expected `c` to be "a" or "b", got `1` (number)'],
    [() => clientSettings({ isolate: 1 as never }), TypeError, "Expected `isolate` to be a boolean, got `1` (number)"],
    [
      () => clientSettings({ deadlineMs: 86_400_001 }),
      RangeError,
      "Expected `deadlineMs` to be an integer from 1 to 86400000, got `86400001` (number)",
    ],
    [
      () => closeTimeoutMs({ timeoutMs: -1 }),
      RangeError,
      "Expected `timeoutMs` to be an integer from 0 to 86400000, got `-1` (number)",
    ],
    [
      () => closeTimeoutMs({ timeout: 1 } as object),
      TypeError,
      'Expected `options` to have only timeoutMs; got `"timeout"` (string) besides',
    ],
    [() => integerOption("n", null, 1), TypeError, "Expected `n` to be an integer from 1, got `null` (null)"],
    [
      () => integerOption("n", undefined, 1),
      TypeError,
      "Expected `n` to be an integer from 1, got `undefined` (undefined)",
    ],
    [() => integerOption("n", 10n, 1), TypeError, "Expected `n` to be an integer from 1, got `10` (bigint)"],
    [() => booleanOption("b", "yes"), TypeError, 'Expected `b` to be a boolean, got `"yes"` (string)'],
    [() => booleanOption("b", Symbol("x")), TypeError, "Expected `b` to be a boolean, got `Symbol(x)` (symbol)"],
    [() => textOption("t", "", 9), RangeError, "Expected `t` to have 1 to 9 characters, got 0"],
    [() => textOption("t", ["a"], 9), TypeError, "Expected `t` to be a string, got `[object Array]` (object)"],
    [
      () => textOption("t", Object.create(null), 9),
      TypeError,
      "Expected `t` to be a string, got `[object Object]` (object)",
    ],
    [
      () => signalOption("s", "x".repeat(500)),
      TypeError,
      `Expected \`s\` to be an AbortSignal, got \`"${"x".repeat(79)}…\` (string)`,
    ],
    [
      () => assertClient("redis", {}),
      TypeError,
      "Expected `redis` to be an ioredis Redis or Cluster, got `[object Object]` (object)",
    ],
    [
      () => assertClient("redis", { toString: () => "secret" }),
      TypeError,
      "Expected `redis` to be an ioredis Redis or Cluster, got `[object Object]` (object)",
    ],
  ])("name what was wanted and what was given (%#)", (check, kind, message) => {
    expect(check).toThrow(kind);
    expect(check).toThrow(new kind(message));
  });
});

describe("an options object", () => {
  const known = ["leaseMs", "holder"];
  const hostileName = fc.constantFrom("__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "valueOf");
  const nested = fc.object({
    key: fc.oneof(hostileName, fc.constantFrom("leaseMs", "holder", "polluted")),
    maxDepth: 3,
    withNullPrototype: true,
  });

  it("is refused for any name that means nothing, those that every object has among them, and changes no prototype", () => {
    const before = Reflect.ownKeys(Object.prototype);
    fc.assert(
      fc.property(fc.dictionary(fc.oneof(hostileName, fc.constantFrom(...known)), nested), (values) => {
        // As it comes from a request: `__proto__` is a property of its own then.
        const given = JSON.parse(
          `{${Object.entries(values)
            .map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`)
            .join()}}`,
        ) as object;
        const isSound = Object.keys(given).every((key) => known.includes(key));
        let error: unknown;
        try {
          expect(optionsObject("options", given, known)).toBe(given);
        } catch (thrown) {
          error = thrown;
        }
        expect(error instanceof TypeError).toBe(!isSound);
        expect(Reflect.ownKeys(Object.prototype)).toEqual(before);
        expect("polluted" in {}).toBe(false);
      }),
      { numRuns: 2_000 },
    );
  });

  it("that every package has are filled in", () => {
    expect(clientSettings({ prefix: undefined })).toEqual({ prefix: "kit", isolate: false, deadlineMs: 2_000 });
    expect([closeTimeoutMs({}), closeTimeoutMs({ timeoutMs: undefined })]).toEqual([10_000, 10_000]);
  });
});
