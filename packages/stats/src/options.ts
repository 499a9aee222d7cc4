import {
  boolean,
  choice,
  clientRules,
  type ClientOptions,
  custom,
  defaultsOf,
  integer,
  integerOption,
  matching,
  type MetricSource,
  required,
  resolve,
  type Resolved,
  type RulesOf,
  signal,
  text,
} from "@kit/core/toolkit";
import {
  chunkLength,
  instantOption,
  type Precision,
  precisionsOption,
  type RangeOptions,
  rangeRules,
  type Step,
} from "./time/buckets.js";
import { dayMs } from "./time/days.js";
import type { ExpositionFormat } from "./metric/exposition.js";
import { type Level, levelNames } from "./messages/levels.js";
import { labelNames, wellFormedText } from "./metric/labels.js";
import type { Delivery } from "./send/outbox.js";

const hourMs = 3_600_000;
const deliveries: readonly Delivery[] = ["at-most-once", "at-least-once", "effectively-once"];
const byCodePoints = (one: string, other: string): number => (one < other ? -1 : 1);
const powersOfTwo = (first: number): number[] => Array.from({ length: 17 }, (_, index) => 2 ** (first + index));

const boundsOption = (name: string, bounds: readonly number[]): readonly number[] => {
  const given: unknown = bounds;
  if (!Array.isArray(given) || given.length === 0 || given.length > 64)
    throw new TypeError(`Expected \`${name}\` to be an array of 1 to 64 numbers`);
  if (!bounds.every((bound, index) => Number.isFinite(bound) && (index === 0 || bound > (bounds[index - 1] ?? 0))))
    throw new RangeError(`Expected \`${name}\` to be finite numbers in ascending order`);
  return [...bounds];
};

/** Settings of a statistics object. */
export interface StatsOptions extends ClientOptions {
  /**
   * How long buffered amounts wait before they are sent, in milliseconds. The time varies by a tenth, so that processes don't
   * send together. A killed process loses the amounts of about this time, or its whole buffer if no server answered.
   *
   * @default 250
   */
  readonly flushMs?: number | undefined;
  /**
   * How many places the buffer has. A series uses one place for each unacknowledged bucket of its finest step. When the
   * buffer is full, further amounts are dropped and counted as `full`.
   *
   * @default 100000
   */
  readonly maxPending?: number | undefined;
  /**
   * What happens to an amount whose reply is lost.
   *
   * @default "effectively-once"
   */
  readonly delivery?: Delivery | undefined;
}

export const statsRules = {
  ...clientRules,
  flushMs: integer(1, 60_000, 250),
  maxPending: integer(1, 100_000_000, 100_000),
  delivery: choice(deliveries, "effectively-once"),
} satisfies RulesOf<StatsOptions>;

export type StatsSettings = Resolved<typeof statsRules>;

/** The options that counters and distributions share. */
interface MetricOptions<Names extends string> {
  /**
   * A description, for the exposition.
   *
   * @default ""
   */
  readonly help?: string | undefined;
  /**
   * The names of the labels. Each call must pass a value for every label.
   *
   * @default []
   */
  readonly labelNames?: readonly Names[] | undefined;
  /**
   * How many series this process tracks separately. Further series are counted together, in a series whose labels are all
   * `__overflow__`. A series that was idle for ten minutes releases its place.
   *
   * @default 2000
   */
  readonly maxSeries?: number | undefined;
  /**
   * What happens to an amount whose reply is lost.
   *
   * @default the statistics object's `delivery`
   */
  readonly delivery?: Delivery | undefined;
}

const metricRules = {
  help: custom((name, help: string) => {
    if (typeof help !== "string") throw new TypeError(`Expected \`${name}\` to be a string, got ${typeof help}`);
    return help;
  }, ""),
  // Sorted, since a second definition may have them in another order.
  labelNames: custom((_name, names: readonly string[]) => labelNames(names).toSorted(byCodePoints), []),
  maxSeries: integer(1, 1_000_000, 2_000),
  delivery: choice(deliveries),
} satisfies RulesOf<MetricOptions<string>>;

export type MetricSettings = Resolved<typeof metricRules> & Pick<StatsSettings, "delivery">;

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

/** Settings of a distribution. */
export interface DistributionOptions<Names extends string = never> extends MetricOptions<Names> {
  /**
   * The stored windows, and how long each is kept. Every step must be a multiple of the finest step.
   *
   * @default each minute for 3 hours, each hour for 14 days
   */
  readonly windows?: readonly Precision[] | undefined;
  /**
   * The maximum number of bins in the sketch of a window, 16 to 2,048. A bin is 2.2 % wide and uses memory only if it has
   * values; 107 bins cover a decade. Beyond the maximum, the lowest values collapse into one bin and low quantiles are lost.
   * `summary.accurateAbove` shows which quantiles.
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
   * Upper bounds of the histogram in an exposition: 1 to 64 ascending numbers. A bound counts exactly the values up to it that were
   * observed with this bound. It counts older values exactly if it is a power of two, otherwise as if it were up to 2.2 % lower.
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

/** Settings of a message log. */
export interface MessagesOptions {
  /**
   * How many entries of each level are kept.
   *
   * @default 100
   */
  readonly keepEntries?: number | undefined;
  /**
   * How long the entries of a level are kept after the last one, in milliseconds.
   *
   * @default 604800000 (7 days)
   */
  readonly keepMs?: number | undefined;
  /**
   * The width of the windows in which messages are counted, and how long each is kept.
   *
   * @default { stepMs: 3_600_000, keepMs: 172_800_000 }
   */
  readonly window?: Precision | undefined;
  /**
   * How many different messages of each level a window counts. Frequent messages replace rare ones.
   *
   * @default 1000
   */
  readonly maxDistinct?: number | undefined;
  /**
   * Whether messages are compared without their numbers, ids, addresses, times and quoted parts.
   *
   * @default true
   */
  readonly mask?: boolean | undefined;
  /**
   * The longest text, in bytes of UTF-8. Longer texts are cut between characters.
   *
   * @default 8192
   */
  readonly maxTextBytes?: number | undefined;
  /**
   * What happens to a message whose reply is lost.
   *
   * @default the statistics object's `delivery`
   */
  readonly delivery?: Delivery | undefined;
}

export const messagesRules = {
  keepEntries: integer(1, 100_000, 100),
  keepMs: integer(1_000, 3_660 * dayMs, 7 * dayMs),
  window: custom((name, given: Precision) => precisionsOption(name, [given], 1)[0] as Step, {
    stepMs: hourMs,
    keepMs: 2 * dayMs,
  }),
  maxDistinct: integer(1, 10_000, 1_000),
  mask: boolean(true),
  maxTextBytes: integer(1, 1_048_576, 8_192),
  delivery: choice(deliveries),
} satisfies RulesOf<MessagesOptions>;

export type MessagesSettings = Resolved<typeof messagesRules> & Pick<StatsSettings, "delivery">;

/** One amount or value. */
export interface WriteOptions {
  /**
   * When it happened, in epoch milliseconds of the server's clock. 0 is a valid time. An amount more than one minute ahead of
   * the server is dropped. A precision that no longer keeps this time does not store the amount.
   *
   * @default now
   */
  readonly at?: number | undefined;
}

export const writeRules = { at: custom(instantOption) } satisfies RulesOf<WriteOptions>;

/** Settings of an amount or value whose caller waits. */
export interface ConfirmOptions extends WriteOptions {
  /** Ends the wait with `signal.reason`. An amount that was already sent may still be counted. */
  readonly signal?: AbortSignal | undefined;
  /** The `op` of a `KitUnknownOutcomeError`: waits for that call's amount instead of adding another one. */
  readonly op?: string | undefined;
}

export const confirmRules = { ...writeRules, signal, op: text(128) } satisfies RulesOf<ConfirmOptions>;

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

/** A span of time, and how many subjects to list. */
export interface SlowestOptions extends RangeOptions {
  /**
   * The maximum number of subjects: up to the distribution's option `slowest`, or up to 10 if that is less.
   *
   * @default 10
   */
  readonly limit?: number | undefined;
}

export const slowestRules = { ...rangeRules, limit: integer(1, undefined, 10) } satisfies RulesOf<SlowestOptions>;

/** Details of one message. */
export interface LogOptions {
  /**
   * An object that JSON can represent, up to `maxTextBytes` long. An `Error` among its values is written as name, message and
   * stack.
   *
   * @default {}
   */
  readonly fields?: Readonly<Record<string, unknown>> | undefined;
  /**
   * The text under which the message is counted, 1 to 200 characters.
   *
   * @default its text, masked
   */
  readonly fingerprint?: string | undefined;
}

export const logRules = {
  fields: custom((name, fields: Readonly<Record<string, unknown>>) => {
    if (typeof fields !== "object" || fields === null || Array.isArray(fields))
      throw new TypeError(`Expected \`${name}\` to be an object`);
    return fields;
  }),
  fingerprint: wellFormedText(200),
} satisfies RulesOf<LogOptions>;

/** A page of entries. */
export interface RecentOptions {
  /** Only this level. */
  readonly level?: Level | undefined;
  /**
   * This level and higher levels.
   *
   * @default all levels
   */
  readonly minLevel?: Level | undefined;
  /**
   * The maximum number of entries, 1 to 1,000.
   *
   * @default 100
   */
  readonly limit?: number | undefined;
  /** The `next` of the previous page. */
  readonly before?: string | undefined;
}

export const recentRules = {
  level: choice(levelNames),
  minLevel: choice(levelNames),
  limit: integer(1, 1_000, 100),
  before: matching(text(100), /^(trace|debug|info|warn|error|fatal) \d+-\d+$/, "to be the `next` of a page"),
} satisfies RulesOf<RecentOptions>;

/** How to follow a log. */
export interface TailOptions {
  /**
   * This level and higher levels.
   *
   * @default all levels
   */
  readonly minLevel?: Level | undefined;
  /**
   * How many existing entries come first, 0 to 1,000.
   *
   * @default 0
   */
  readonly last?: number | undefined;
  /** Ends the iteration. */
  readonly signal?: AbortSignal | undefined;
}

export const tailRules = {
  minLevel: choice(levelNames),
  last: integer(0, 1_000, 0),
  signal,
} satisfies RulesOf<TailOptions>;

/** A span of time, and the messages to list. */
export interface FrequentOptions extends Omit<RangeOptions, "stepMs"> {
  /**
   * Only this level.
   *
   * @default all
   */
  readonly level?: Level | undefined;
  /**
   * The maximum number of messages, 1 to 1,000.
   *
   * @default 20
   */
  readonly limit?: number | undefined;
}

const { stepMs: _, ...spanRules } = rangeRules;
export const frequentRules = {
  ...spanRules,
  level: choice(levelNames),
  limit: integer(1, 1_000, 20),
} satisfies RulesOf<FrequentOptions>;

/** The processes whose numbers an exposition shows. */
export type ExpositionScope = "shared" | "local";

/** Scope and format of an exposition. */
export interface ExposeOptions {
  /**
   * The text format: Prometheus or OpenMetrics.
   *
   * @default "prometheus"
   */
  readonly format?: ExpositionFormat | undefined;
  /**
   * - `shared`: the totals of all processes, from the server. Each process shows the same, so scrape only one
   * - `local`: the amounts that the server has confirmed for this object since it was created. Scrape each process, and add
   *   them up
   *
   * @default "shared"
   */
  readonly scope?: ExpositionScope | undefined;
  /**
   * Further objects whose `metrics()` are shown. Their numbers are always from this process only.
   *
   * @default []
   */
  readonly include?: readonly MetricSource[] | undefined;
}

export const exposeRules = {
  format: choice(["prometheus", "openmetrics"], "prometheus"),
  scope: choice(["shared", "local"], "shared"),
  include: custom((name, include: readonly MetricSource[]) => {
    if (!Array.isArray(include) || include.some((one: Partial<MetricSource>) => typeof one.metrics !== "function"))
      throw new TypeError(`Expected \`${name}\` to be an array of objects with \`metrics()\``);
    return include;
  }, []),
} satisfies RulesOf<ExposeOptions>;

/** @throws {TypeError | RangeError} an option is invalid. */
export const counterSettings = (options: CounterOptions<string>, { delivery }: StatsSettings): CounterSettings =>
  resolve("options", options, counterRules, { ...defaultsOf(counterRules), delivery });

/** @throws {TypeError | RangeError} an option is invalid. */
export const distributionSettings = (
  options: DistributionOptions<string>,
  { delivery }: StatsSettings,
): DistributionSettings => {
  const own = resolve("options", options, distributionRules, { ...defaultsOf(distributionRules), delivery });
  return { ...own, bounds: own.bounds ?? powersOfTwo(own.timeUnit === "s" ? -10 : 0) };
};

/** @throws {TypeError | RangeError} an option is invalid. */
export const messagesSettings = (options: MessagesOptions, { delivery }: StatsSettings): MessagesSettings =>
  resolve("options", options, messagesRules, { ...defaultsOf(messagesRules), delivery });

/** @throws {TypeError | RangeError} an option is invalid. */
export const slowestOptions = (
  options: SlowestOptions,
  slowest: number,
): { readonly limit: number; readonly range: RangeOptions } => {
  const { limit, ...range } = resolve("options", options, slowestRules);
  return { limit: integerOption("limit", limit, 1, Math.max(slowest, 10)), range };
};

/** An error has no own fields that JSON would write. */
const withErrors = (_key: string, value: unknown): unknown =>
  value instanceof Error ? { name: value.name, message: value.message, stack: value.stack } : value;

/** @throws {TypeError | RangeError} an option is invalid, or the fields are no JSON or too long. */
export const logOptions = (
  options: LogOptions,
  maxBytes: number,
): { readonly fields: string; readonly fingerprint: string | undefined } => {
  const { fields, fingerprint } = resolve("options", options, logRules);
  let json = "";
  try {
    // `toJSON` may return undefined.
    if (fields !== undefined) json = (JSON.stringify(fields, withErrors) as string | undefined) ?? "";
  } catch {
    // The error may contain the fields.
    throw new TypeError("Expected `fields` to be JSON, got a bigint, a cycle, or a toJSON or getter that throws");
  }
  if (Buffer.byteLength(json) > maxBytes)
    throw new RangeError(`Expected \`fields\` to have at most ${String(maxBytes)} bytes as JSON`);
  return { fields: json, fingerprint };
};

/** @throws {TypeError | RangeError} an option is invalid. */
export const recentOptions = (options: RecentOptions): Resolved<typeof recentRules> => {
  const settings = resolve("options", options, recentRules);
  if (settings.level !== undefined && settings.minLevel !== undefined)
    throw new TypeError("Expected either `level` or `minLevel`, got both");
  return settings;
};
