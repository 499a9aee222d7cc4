import { custom, integer, required, type Resolved, type RulesOf, text } from "@kit/core/toolkit";
import { wellFormedText } from "../metric/labels.js";
import { type MetricOptions, metricRules, type MetricSettings } from "../metric/options.js";
import { settingsOf, type StatsSettings, writeRules } from "../send/options.js";
import { chunkLength, type Precision, precisionsOption } from "../time/buckets.js";
import { dayMs } from "../time/days.js";

/** Settings of a counter. */
export interface CounterOptions<Names extends string = never> extends MetricOptions<Names> {
  /**
   * The widths of the stored buckets, and how long each is kept. Every step must be a multiple of the finest step.
   *
   * @default each second for 10 minutes, each minute for a day, each 15 minutes for 90 days
   */
  readonly precisions?: readonly Precision[] | undefined;
}

export const counterRules = {
  ...metricRules,
  precisions: custom(
    (name, given: readonly Precision[]) => precisionsOption(name, given, chunkLength),
    [
      { stepMs: 1_000, keepMs: 600_000 },
      { stepMs: 60_000, keepMs: dayMs },
      { stepMs: 900_000, keepMs: 90 * dayMs },
    ],
  ),
} satisfies RulesOf<CounterOptions<string>>;

export type CounterSettings = Resolved<typeof counterRules> & MetricSettings;

/** @throws {TypeError | RangeError} an option is invalid. */
export const counterSettings = (options: CounterOptions<string>, settings: StatsSettings): CounterSettings =>
  settingsOf(options, counterRules, settings);

/** A span of calendar days. */
export interface DaysOptions {
  /** A name of the IANA database, such as `Europe/Berlin` or `UTC`. */
  readonly timeZone: string;
  /** How many days, including today: 1 to 1,000. */
  readonly lastDays: number;
}

export const daysRules = {
  timeZone: required(text(100)),
  lastDays: required(integer(1, 1_000)),
} satisfies RulesOf<DaysOptions>;

/** @throws {TypeError | RangeError} the value is not a valid amount. */
export const amountOption = (amount: unknown): number => {
  if (typeof amount !== "number") throw new TypeError(`Expected \`amount\` to be a number, got ${typeof amount}`);
  if (!Number.isSafeInteger(amount) || amount < 0)
    throw new RangeError(`Expected \`amount\` to be an integer from 0 to 2^53 - 1, got ${String(amount)}`);
  return amount;
};

/** An amount for one series of a counter, as you pass it to `apply()`. */
export interface CounterDelta {
  /** The name of a counter of this object. */
  readonly name: string;
  /**
   * A value for each label of the counter.
   *
   * @default {}
   */
  readonly labels?: Readonly<Record<string, string | number>> | undefined;
  /** The amount to add: an integer, 0 or more. */
  readonly amount: number;
  /**
   * When it happened, in epoch milliseconds.
   *
   * @default now
   */
  readonly at?: number | undefined;
}

export const deltaRules = {
  ...writeRules,
  name: custom((_name, name: string) => name, ""),
  labels: custom((_name, labels: Readonly<Record<string, string | number>>) => labels, {}),
  amount: required(custom((_name, amount: number) => amountOption(amount))),
} satisfies RulesOf<CounterDelta>;

/** The writer, and the number of this call. */
export interface ApplyOptions {
  /**
   * A name that stays the same when the writer restarts, 1 to 200 characters. Use the name of the file or partition that you
   * read.
   */
  readonly writer: string;
  /** The number of the call, which must grow with each call of a writer. Use a position in a file or a batch number. */
  readonly seq: number;
}

export const applyRules = {
  writer: required(wellFormedText(200)),
  seq: required(integer(1)),
} satisfies RulesOf<ApplyOptions>;
