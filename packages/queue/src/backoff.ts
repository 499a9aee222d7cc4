import { integerOption, optionsObject } from "@kit/core/toolkit";
import type { Job } from "./job.js";

/** How long a failed job waits for its next attempt: `firstMs` after the first failure, `factor` times longer after each further one. */
export interface Backoff {
  readonly firstMs: number;
  /**
   * With 1 every wait is the same.
   *
   * @default 2
   */
  readonly factor?: number | undefined;
  /**
   * The longest wait, in milliseconds.
   *
   * @default 3,600,000
   */
  readonly maxMs?: number | undefined;
  /**
   * The largest random cut of a wait, as a fraction of it: 0 is none, 1 may cut all of it. It spreads jobs that failed together.
   *
   * @default 0.5
   */
  readonly jitter?: number | undefined;
}

/**
 * Says how long a job waits for its next attempt, in ms; -1 gives it up. Fractions are rounded up, and no wait is longer than ten
 * thousand years. If it throws, or gives something else, the worker emits `error` with a JobBackoffError, and the default applies.
 */
export type BackoffFunction = (failure: {
  /** The attempt that failed, counted from 1. */
  readonly attempt: number;
  readonly error: unknown;
  readonly job: Job;
}) => number | Promise<number>;

export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly backoff: ResolvedBackoff | undefined;
}

/** With every default filled in. */
export type ResolvedBackoff = { readonly [Part in keyof Backoff]-?: number };

/**
 * For jobs that were added without a back-off. All but `firstMs` are also the defaults of a back-off that names only some parts.
 */
const usual: ResolvedBackoff = { firstMs: 1_000, factor: 2, maxMs: 3_600_000, jitter: 0.5 };

/**
 * Milliseconds; fractions, as of a computed wait, are rounded up.
 *
 * @throws {TypeError | RangeError} it is no number, or out of range.
 */
export const msOption = (name: string, ms: unknown, min: number, max?: number): number =>
  integerOption(name, typeof ms === "number" ? Math.ceil(ms) : ms, min, max);

const numberOption = (name: string, value: unknown, min: number, max: number): number => {
  if (typeof value !== "number" || !(value >= min && value <= max))
    throw new RangeError(`Expected \`${name}\` to be a number from ${String(min)} to ${String(max)}`);
  return value;
};

/** @throws {TypeError | RangeError} it is not what it should be. */
export const backoffOption = (name: string, backoff: Backoff): ResolvedBackoff => {
  const given = optionsObject(name, backoff, Object.keys(usual));
  const { firstMs, factor = usual.factor, maxMs = usual.maxMs, jitter = usual.jitter } = given;
  return {
    firstMs: msOption(`${name}.firstMs`, firstMs, 0),
    factor: numberOption(`${name}.factor`, factor, 1, 1_000),
    maxMs: msOption(`${name}.maxMs`, maxMs, 0),
    jitter: numberOption(`${name}.jitter`, jitter, 0, 1),
  };
};

/** The longest wait of a job. */
export const longestWaitMs = 3e14;

/**
 * What a caller's function gave.
 *
 * @throws {RangeError} it is no wait.
 */
export const checkedWait = (waitMs: unknown): number => {
  if (typeof waitMs === "number" && (waitMs >= 0 || waitMs === -1)) return Math.min(Math.ceil(waitMs), longestWaitMs);
  throw new RangeError("It gave no wait");
};

/** The wait after an attempt that failed, counted from 1. */
export const waitAfter = (attempt: number, { firstMs, factor, maxMs, jitter }: ResolvedBackoff = usual): number => {
  // The exponent stops at 30, long before the product could become infinite.
  const full = Math.min(maxMs, firstMs * factor ** Math.min(attempt - 1, 30));
  return Math.round(full * (1 - jitter * Math.random()));
};
