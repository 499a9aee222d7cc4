import { describe, expect, it } from "vitest";
import { assertClient, booleanOption, integerOption, signalOption, textOption } from "../src/options.js";

describe("options", () => {
  it("come back when they are what they should be", () => {
    const { signal } = new AbortController();
    expect([
      integerOption("n", 3, 1),
      integerOption("n", 1, 1, 1),
      booleanOption("b", false),
      textOption("t", "x", 1),
      signalOption("s", signal),
      signalOption("s", undefined),
    ]).toEqual([3, 1, false, "x", signal, undefined]);
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
