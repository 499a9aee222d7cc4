import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { assertClient, type ClientOptions, clientRules, closeTimeoutMs } from "../src/kernel/base/options.js";
import {
  boolean,
  booleanOption,
  choice,
  choiceOption,
  defaultsOf,
  integer,
  integerOption,
  matching,
  optionsObject,
  required,
  resolve,
  type RulesOf,
  signal,
  signalOption,
  text,
  textOption,
} from "../src/kernel/base/rules.js";

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
    [
      () => resolve("options", { isolate: 1 }, clientRules),
      TypeError,
      "Expected `isolate` to be a boolean, got `1` (number)",
    ],
    [
      () => resolve("options", { deadlineMs: 86_400_001 }, clientRules),
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
      'Unknown option "timeout" in `options`. Known options: timeoutMs',
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
      "Expected `redis` to be an ioredis Redis or Cluster, or fromNodeRedis(client), got `[object Object]` (object)",
    ],
    [
      () => assertClient("redis", { toString: () => "secret" }),
      TypeError,
      "Expected `redis` to be an ioredis Redis or Cluster, or fromNodeRedis(client), got `[object Object]` (object)",
    ],
    [
      () => assertClient("redis", "mail"),
      TypeError,
      'Expected `redis` to be an ioredis Redis or Cluster, or fromNodeRedis(client), as the first argument, got `"mail"` (string)',
    ],
    [
      () => assertClient("redis", Promise.resolve()),
      TypeError,
      "Expected `redis` to be an ioredis Redis or Cluster, or fromNodeRedis(client), got a promise; await it",
    ],
  ])("name what was wanted and what was given (%#)", (check, kind, message) => {
    expect(check).toThrow(kind);
    expect(check).toThrow(new kind(message));
  });
});

const hostileName = fc.constantFrom("__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "valueOf");

describe("an options object", () => {
  const known = ["leaseMs", "holder"];
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
      { numRuns: 500 },
    );
  });

  it("that every package has are filled in", () => {
    expect([closeTimeoutMs({}), closeTimeoutMs({ timeoutMs: undefined })]).toEqual([10_000, 10_000]);
  });
});

interface TripOptions {
  readonly leaseMs?: number | undefined;
  readonly renew?: boolean | undefined;
  readonly holder?: string | undefined;
  readonly order?: "asc" | "desc" | undefined;
  readonly seats: number;
  readonly signal?: AbortSignal | undefined;
}

const tripRules = {
  leaseMs: integer(10, 1_000, 100),
  renew: boolean(true),
  holder: matching(text(8), /^\w+$/, "to have only letters"),
  order: choice(["asc", "desc"], "asc"),
  seats: required(integer(1, 9)),
  signal,
} satisfies RulesOf<TripOptions>;

// @ts-expect-error A name is missing.
export const tooFew = { leaseMs: integer(1) } satisfies RulesOf<Pick<TripOptions, "leaseMs" | "renew">>;
// @ts-expect-error No option has this name.
export const tooMany = { leaseMs: integer(1), other: integer(1) } satisfies RulesOf<Pick<TripOptions, "leaseMs">>;
// @ts-expect-error The table refuses a value that the type permits.
export const tooStrict = { order: choice(["asc"]) } satisfies RulesOf<Pick<TripOptions, "order">>;

describe("settings", () => {
  const trip = (options: object): object => resolve("options", options as Partial<TripOptions>, tripRules);

  it("are the given options, and the defaults for others and for undefined", () => {
    const { signal: given } = new AbortController();
    const defaults = { leaseMs: 100, renew: true, holder: undefined, order: "asc", signal: undefined };
    expect(trip({ seats: 2 })).toEqual({ ...defaults, seats: 2 });
    expect(trip({ seats: 2, leaseMs: undefined, holder: undefined })).toEqual({ ...defaults, seats: 2 });
    const all = { leaseMs: 10, renew: false, holder: "me", order: "desc", seats: 9, signal: given };
    expect(trip(Object.freeze(all))).toEqual(all);
    expect(trip(all)).not.toBe(all);
  });

  it("of a call have the settings of its object for defaults, and nothing else of them", () => {
    const own = defaultsOf(tripRules, { leaseMs: 500, holder: "own", maxWaiters: 3 });
    expect(own).toEqual({ ...own, leaseMs: 500, renew: true, holder: "own" });
    expect(Object.keys(own)).toEqual(Object.keys(tripRules));
    const settings = resolve("options", { seats: 1, holder: "call" }, tripRules, own);
    expect(settings).toEqual({ ...own, seats: 1, holder: "call" });
    expect(own.holder).toBe("own");
  });

  it.each([
    [{ seats: 1, leaseMs: 9 }, RangeError, "Expected `leaseMs` to be an integer from 10 to 1000, got `9` (number)"],
    [{ seats: 1, renew: null }, TypeError, "Expected `renew` to be a boolean, got `null` (null)"],
    [{ seats: 1, holder: "a b" }, RangeError, "Expected `holder` to have only letters"],
    [{ seats: 1, holder: "a".repeat(9) }, RangeError, "Expected `holder` to have 1 to 8 characters, got 9"],
    [{ seats: 1, order: "up" }, RangeError, 'Expected `order` to be "asc" or "desc", got `"up"` (string)'],
    [{}, TypeError, "Expected `seats` to be an integer from 1 to 9, got `undefined` (undefined)"],
    [{ seats: undefined }, TypeError, "Expected `seats` to be an integer from 1 to 9, got `undefined` (undefined)"],
    [[], TypeError, "Expected `options` to be an object, got `[object Array]` (object)"],
    [
      { seats: 1, leasems: 10 },
      TypeError,
      'Unknown option "leasems" in `options`. Known options: leaseMs, renew, holder, order, seats, signal',
    ],
  ])("are refused: %j", (options: unknown, kind: new (message: string) => Error, message: string) => {
    expect(() => trip(options as object)).toThrow(new kind(message));
    expect(() => trip(options as object)).toThrow(kind);
  });

  it("have no names but those of the table, whatever is given, and change no prototype", () => {
    const before = Reflect.ownKeys(Object.prototype);
    const refusal: unknown = expect.stringMatching(/^(Expected `|Unknown option ")/);
    fc.assert(
      fc.property(
        fc.dictionary(fc.oneof(hostileName, fc.constantFrom("seats", "leaseMs")), fc.nat(12)),
        (values: { seats?: number; leaseMs?: number }) => {
          const pairs = Object.entries(values).map(([key, value]) => `${JSON.stringify(key)}:${String(value)}`);
          let found: readonly string[] | string;
          try {
            found = Object.keys(trip(JSON.parse(`{${pairs.join()}}`) as object));
          } catch (error) {
            found = (error as Error).message;
          }
          const { seats = 0, leaseMs = 100, ...others } = values;
          const isSound =
            Object.keys(others).length === 0 && seats > 0 && seats < 10 && leaseMs >= 10 && leaseMs <= 1_000;
          expect(found).toEqual(isSound ? Object.keys(tripRules) : refusal);
          expect(Reflect.ownKeys(Object.prototype)).toEqual(before);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it("read each option once, own ones only", () => {
    let reads = 0;
    const options = Object.create(
      { leaseMs: 5 },
      {
        seats: { enumerable: true, get: () => (reads += 1) },
      },
    ) as object;
    expect(trip(options)).toMatchObject({ seats: 1, leaseMs: 100 });
    expect(reads).toBe(1);
  });

  it("of every client are filled in", () => {
    expect(resolve("options", {} satisfies ClientOptions, clientRules)).toEqual({
      prefix: "kit",
      isolate: false,
      deadlineMs: 2_000,
    });
  });
});
