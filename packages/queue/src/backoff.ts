import { integerOption, optionsObject } from "@kit/core/toolkit";
import type { Job } from "./job.js";

/** How long a failed job waits for its next attempt: `firstMs`, and `factor` times as long after each further one. */
export interface Backoff {
  readonly firstMs: number;
  /**
   * 1 waits equally long each time.
   *
   * @default 2
   */
  readonly factor?: number | undefined;
  /**
   * No wait is longer.
   *
   * @default 3,600,000
   */
  readonly maxMs?: number | undefined;
  /**
   * By how much a wait may be shorter, at random: 0 not at all, 1 down to nothing. So jobs that failed together do not
   * come back together.
   *
   * @default 0.5
   */
  readonly jitter?: number | undefined;
}

/** Says how long a job waits for its next attempt, in ms; -1 gives it up. */
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

/** For jobs that were added without a back-off; its later parts are the defaults of all. */
const usual: ResolvedBackoff = { firstMs: 1_000, factor: 2, maxMs: 3_600_000, jitter: 0.5 };

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
    firstMs: integerOption(`${name}.firstMs`, firstMs, 0),
    factor: numberOption(`${name}.factor`, factor, 1, 1_000),
    maxMs: integerOption(`${name}.maxMs`, maxMs, 0),
    jitter: numberOption(`${name}.jitter`, jitter, 0, 1),
  };
};

/** The wait after an attempt that failed, counted from 1. */
export const waitAfter = (attempt: number, { firstMs, factor, maxMs, jitter }: ResolvedBackoff = usual): number => {
  // 2 ** 30 ends the growth long before the product could become infinite.
  const full = Math.min(maxMs, firstMs * factor ** Math.min(attempt - 1, 30));
  return Math.round(full * (1 - jitter * Math.random()));
};
