import { KitError } from "@kit/core";

/**
 * Codes of this package's own errors.
 *
 * - `KIT_STATS_OVERFLOW`: a counter would pass 2^53 − 1
 * - `KIT_STATS_TIME`: an instant lies too far ahead of the server's clock
 * - `KIT_STATS_EXPIRED`: an amount was not confirmed in time, and is not sent again
 */
export type StatsErrorCode = "KIT_STATS_OVERFLOW" | "KIT_STATS_TIME" | "KIT_STATS_EXPIRED";

declare module "@kit/core" {
  interface KitErrorCodes {
    stats: StatsErrorCode;
  }
}

/** A counter would pass 2^53 − 1, the last integer that JavaScript and Lua hold exactly. Nothing was added. */
export class CounterOverflowError extends KitError {
  /** @internal */
  static override readonly brand: string = "CounterOverflowError";
  /** The series whose total is full. */
  readonly series: string;

  constructor(series: string) {
    super("KIT_STATS_OVERFLOW", `Counter ${series} would pass 2^53 - 1: nothing was added`);
    this.series = series;
  }
}

/** `at` lies more than a minute ahead of the server's clock. Nothing was counted. */
export class StatsTimeError extends KitError {
  /** @internal */
  static override readonly brand: string = "StatsTimeError";
  readonly series: string;

  constructor(series: string) {
    super(
      "KIT_STATS_TIME",
      `An instant for ${series} lies more than a minute ahead of the server's clock: not counted`,
    );
    this.series = series;
  }
}

/**
 * The reply to an amount was lost, and the server could not be reached for the five minutes in which it may be sent
 * again. It may or may not have been counted.
 */
export class StatsExpiredError extends KitError {
  /** @internal */
  static override readonly brand: string = "StatsExpiredError";
  readonly series: string;

  constructor(series: string) {
    super(
      "KIT_STATS_EXPIRED",
      `An amount for ${series} was not confirmed within five minutes: it may have been counted`,
    );
    this.series = series;
  }
}
