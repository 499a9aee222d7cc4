import {
  custom,
  defaultsOf,
  integer,
  integerOption,
  required,
  type Resolved,
  type Rule,
  type RulesOf,
} from "@kit/core/toolkit";

/**
 * How long a failed job waits before its next attempt: `firstMs` after the first failure, then `factor` times longer after each further
 * failure.
 */
export interface Backoff {
  /** The wait after the first failure, in milliseconds. */
  readonly firstMs: number;
  /**
   * How many times longer each further wait is, 1 to 1,000. With 1 all waits are the same.
   *
   * @default 2
   */
  readonly factor?: number | undefined;
  /**
   * The maximum wait, in milliseconds.
   *
   * @default 3600000
   */
  readonly maxMs?: number | undefined;
  /**
   * The part of each wait that can be randomly cut, as a fraction: 0 cuts nothing, 1 can cut the whole wait. Jitter spreads jobs that
   * failed together.
   *
   * @default 0.5
   */
  readonly jitter?: number | undefined;
}

export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly backoff: ResolvedBackoff | undefined;
}

/**
 * Milliseconds. Fractions, for example of a computed wait, are rounded up.
 *
 * @throws {TypeError | RangeError} `ms` is not a number, or out of range.
 */
export const msOption = (name: string, ms: unknown, min: number, max?: number): number =>
  integerOption(name, typeof ms === "number" ? Math.ceil(ms) : ms, min, max);

/** The rule of an option in milliseconds; see {@link msOption}. */
export const milliseconds = <Default extends number | undefined = undefined>(
  min: number,
  max?: number,
  usual?: Default,
): Rule<number | Default, number> => ({
  ...integer(min, max, usual),
  kind: "milliseconds",
  check: (name, ms) => msOption(name, ms, min, max),
});

const number = (min: number, max: number, usual: number): Rule<number, number> =>
  custom((name, value) => {
    if (typeof value !== "number" || !(value >= min && value <= max))
      throw new RangeError(`Expected \`${name}\` to be a number from ${String(min)} to ${String(max)}`);
    return value;
  }, usual);

export const backoffRules = {
  firstMs: required(milliseconds(0)),
  factor: number(1, 1_000, 2),
  maxMs: milliseconds(0, undefined, 3_600_000),
  jitter: number(0, 1, 0.5),
} satisfies RulesOf<Backoff>;

export type ResolvedBackoff = Resolved<typeof backoffRules>;

/** The backoff of jobs that were added without one. */
const usual: ResolvedBackoff = defaultsOf(backoffRules, { firstMs: 1_000 });

/** The maximum wait of a job: about ten thousand years. */
export const longestWaitMs = 3e14;

/**
 * Checks the wait that a caller's function returned, and returns it in whole milliseconds.
 *
 * @throws {RangeError} `waitMs` is neither -1 nor a number from 0.
 */
export const checkedWait = (waitMs: unknown): number => {
  if (typeof waitMs === "number" && (waitMs >= 0 || waitMs === -1)) return Math.min(Math.ceil(waitMs), longestWaitMs);
  throw new RangeError("Expected `backoff` to return a number of milliseconds, or -1");
};

/** The wait after a failed attempt. Attempts count from 1. */
export const waitAfter = (attempt: number, { firstMs, factor, maxMs, jitter }: ResolvedBackoff = usual): number => {
  // The exponent stops at 30, long before the product becomes infinite.
  const full = Math.min(maxMs, firstMs * factor ** Math.min(attempt - 1, 30));
  return Math.round(full * (1 - jitter * Math.random()));
};
