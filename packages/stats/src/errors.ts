import { KitError } from "@kit/core";

/** Codes of this package's own errors. */
export type StatsErrorCode = "KIT_STATS_OVERFLOW" | "KIT_STATS_TIME" | "KIT_STATS_EXPIRED";

declare module "@kit/core" {
  interface KitErrorCodes {
    stats: StatsErrorCode;
  }
}

/**
 * The total of a series would exceed 2^53 − 1, the largest integer up to which JavaScript and Lua are exact. Nothing was
 * added. Amounts of one series that share a call are refused together.
 */
export class CounterOverflowError extends KitError {
  /** @internal */
  static override readonly brand: string = "CounterOverflowError";
  readonly series: string;

  constructor(series: string) {
    super("KIT_STATS_OVERFLOW", `Counter ${series} would exceed 2^53 - 1. Nothing was added. Count in a larger unit`);
    this.series = series;
  }
}

/**
 * `at` is more than one minute ahead of the server's clock. Nothing was counted. Only calls that wait throw it; see
 * `dropped`.
 */
export class StatsTimeError extends KitError {
  /** @internal */
  static override readonly brand: string = "StatsTimeError";
  readonly series: string;

  constructor(series: string) {
    super(
      "KIT_STATS_TIME",
      `\`at\` for ${series} is more than one minute ahead of the server's clock. Nothing was counted. Check the clock`,
    );
    this.series = series;
  }
}

/**
 * The reply to an amount was lost, and the server was unreachable for the five minutes in which kit may send the amount
 * again. The amount may or may not have been counted. A buffered amount is dropped as `unknown`. A caller that waits
 * with `op` receives this error.
 */
export class StatsExpiredError extends KitError {
  /** @internal */
  static override readonly brand: string = "StatsExpiredError";
  readonly series: string;

  constructor(series: string) {
    super(
      "KIT_STATS_EXPIRED",
      `An amount for ${series} was not confirmed within five minutes: it may or may not have been counted`,
    );
    this.series = series;
  }
}
