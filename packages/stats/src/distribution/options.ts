import { choice, custom, integer, integerOption, type Resolved, type RulesOf, text } from "@kit/core/toolkit";
import { type MetricOptions, metricRules, type MetricSettings } from "../metric/options.js";
import {
  confirmRules,
  type ConfirmOptions,
  optionsOf,
  settingsOf,
  type StatsSettings,
  writeRules,
  type WriteOptions,
} from "../send/options.js";
import { type Precision, precisionsOption, type RangeOptions, rangeRules } from "../time/buckets.js";
import { dayMs, hourMs } from "../time/days.js";

const powersOfTwo = (first: number): number[] => Array.from({ length: 17 }, (_, index) => 2 ** (first + index));

const boundsOption = (name: string, bounds: readonly number[]): readonly number[] => {
  const given: unknown = bounds;
  if (!Array.isArray(given) || given.length === 0 || given.length > 64)
    throw new TypeError(`Expected \`${name}\` to be an array of 1 to 64 numbers`);
  if (!bounds.every((bound, index) => Number.isFinite(bound) && (index === 0 || bound > (bounds[index - 1] ?? 0))))
    throw new RangeError(`Expected \`${name}\` to be finite numbers in ascending order`);
  return [...bounds];
};

/** Settings of a distribution. */
export interface DistributionOptions<Names extends string = never> extends MetricOptions<Names> {
  /**
   * The stored windows, and how long each is kept. Every step must be a multiple of the finest step.
   *
   * @default each minute for 3 hours, each hour for 14 days
   */
  readonly windows?: readonly Precision[] | undefined;
  /**
   * The maximum number of bins in the sketch of a window, 16 to 2,048. A bin is 2.2 % wide and uses memory only if it has values;
   * 107 bins cover a decade. Beyond the maximum, the lowest values collapse into one bin and low quantiles are lost.
   * `summary.accurateAbove` shows which quantiles are accurate.
   *
   * @default 1024, for values over nine decades
   */
  readonly maxBins?: number | undefined;
  /**
   * How many subjects with the largest values each window lists. 0 keeps no list.
   *
   * @default 0
   */
  readonly slowest?: number | undefined;
  /**
   * Upper bounds of the histogram in an exposition: 1 to 64 ascending numbers. Values observed with a bound are counted exactly.
   * Older values are counted exactly if the bound is a power of two, otherwise as if the bound were up to 2.2 % lower.
   *
   * @default the powers of two from 1 to 65536; with `timeUnit: "s"` from 1/1024 to 64
   */
  readonly bounds?: readonly number[] | undefined;
  /**
   * The unit of `timed()` and `startTimer()`.
   *
   * @default "ms"
   */
  readonly timeUnit?: "ms" | "s" | undefined;
}

export const distributionRules = {
  ...metricRules,
  windows: custom(
    (name, given: readonly Precision[]) => precisionsOption(name, given, 1),
    [
      { stepMs: 60_000, keepMs: 3 * hourMs },
      { stepMs: hourMs, keepMs: 14 * dayMs },
    ],
  ),
  maxBins: integer(16, 2_048, 1_024),
  slowest: integer(0, 1_000, 0),
  bounds: custom(boundsOption),
  timeUnit: choice(["ms", "s"], "ms"),
} satisfies RulesOf<DistributionOptions<string>>;

export type DistributionSettings = Resolved<typeof distributionRules> &
  MetricSettings & { readonly bounds: readonly number[] };

/** @throws {TypeError | RangeError} an option is invalid. */
export const distributionSettings = (
  options: DistributionOptions<string>,
  settings: StatsSettings,
): DistributionSettings => {
  const own = settingsOf(options, distributionRules, settings);
  return { ...own, bounds: own.bounds ?? powersOfTwo(own.timeUnit === "s" ? -10 : 0) };
};

/** One observation. */
export interface ObserveOptions extends WriteOptions {
  /**
   * What was measured (a path, an id), for the list of the slowest. Kept only if the distribution has `slowest`.
   *
   * @default none
   */
  readonly subject?: string | undefined;
}

export const observeRules = { ...writeRules, subject: text(500) } satisfies RulesOf<ObserveOptions>;

/** Settings of an observation whose caller waits. */
export type RecordOptions = ObserveOptions & ConfirmOptions;

export const recordRules = { ...observeRules, ...confirmRules } satisfies RulesOf<RecordOptions>;

/** @throws {TypeError | RangeError} an option is invalid. */
export const observeOptions = (options: ObserveOptions): ObserveOptions => optionsOf(options, observeRules);

/** A span of time, and how many subjects to list. */
export interface SlowestOptions extends RangeOptions {
  /**
   * The maximum number of subjects, up to the larger of 10 and the distribution's `slowest`.
   *
   * @default 10
   */
  readonly limit?: number | undefined;
}

export const slowestRules = { ...rangeRules, limit: integer(1, undefined, 10) } satisfies RulesOf<SlowestOptions>;

/** @throws {TypeError | RangeError} an option is invalid. */
export const slowestOptions = (
  options: SlowestOptions,
  slowest: number,
): { readonly limit: number; readonly range: RangeOptions } => {
  const { limit, ...range } = optionsOf(options, slowestRules);
  return { limit: integerOption("limit", limit, 1, Math.max(slowest, 10)), range };
};
