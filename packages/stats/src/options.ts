import {
  booleanOption,
  choiceOption,
  clientOptionNames,
  type ClientOptions,
  clientSettings,
  integerOption,
  type MetricSource,
  optionsObject,
  signalOption,
  textOption,
} from "@kit/core/toolkit";
import {
  instantOption,
  type Precision,
  precisionsOption,
  type RangeOptions,
  rangeNames,
  type Step,
} from "./buckets.js";
import type { ExpositionFormat } from "./exposition.js";
import { type Level, levelNames } from "./levels.js";
import { labelNames, wellFormed } from "./labels.js";
import type { Delivery } from "./outbox.js";

/** Settings of a statistics object. */
export interface StatsOptions extends ClientOptions {
  /**
   * How long buffered amounts wait before they are sent, in milliseconds. A killed process loses at most this much time of
   * amounts.
   *
   * @default 250
   */
  readonly flushMs?: number | undefined;
  /**
   * How many places the buffer has. A series takes one for each unacknowledged bucket of its finest step. When all are
   * taken, further amounts are dropped and counted as `full`.
   *
   * @default 100000
   */
  readonly maxPending?: number | undefined;
  /**
   * The handling of an amount whose reply is lost.
   *
   * @default "effectively-once"
   */
  readonly delivery?: Delivery | undefined;
}

/** The options that counters and distributions share. */
interface MetricOptions<Names extends string> {
  /**
   * A description for people.
   *
   * @default ""
   */
  readonly help?: string | undefined;
  /**
   * The labels of its series; each call names a value for every one.
   *
   * @default []
   */
  readonly labelNames?: readonly Names[] | undefined;
  /**
   * How many series this process keeps apart. Further ones are counted together, in a series whose labels are all
   * `__overflow__`. A series that was idle for ten minutes releases its place.
   *
   * @default 2000
   */
  readonly maxSeries?: number | undefined;
  /** @default that of the statistics object */
  readonly delivery?: Delivery | undefined;
}

/** Settings of a counter. */
export interface CounterOptions<Names extends string = never> extends MetricOptions<Names> {
  /**
   * The widths of the buckets that are stored, and how long each is kept. Every step is a multiple of the finest.
   *
   * @default 1 s for 10 minutes, 1 minute for a day, 15 minutes for 90 days
   */
  readonly precisions?: readonly Precision[] | undefined;
}

/** Settings of a distribution. */
export interface DistributionOptions<Names extends string = never> extends MetricOptions<Names> {
  /**
   * The windows that are stored, and how long each is kept. Every step is a multiple of the finest.
   *
   * @default 1 minute for 3 hours, 1 hour for 14 days
   */
  readonly windows?: readonly Precision[] | undefined;
  /**
   * How many bins the sketch of a window has at most, 16 to 2,048. A bin is 2.2 % wide and takes memory only if it has values;
   * 107 cover a decade. Past it the lowest values collapse into one bin: low quantiles are lost, and
   * `summary.accurateAbove` says which.
   *
   * @default 1024, for values over nine decades
   */
  readonly maxBins?: number | undefined;
  /**
   * How many subjects with the largest values each window lists; 0 keeps no list.
   *
   * @default 0
   */
  readonly slowest?: number | undefined;
  /**
   * Upper bounds of the histogram in an exposition: 1 to 64 ascending numbers. Each counts exactly the values
   * up to it, from the first value on that a process observes with it; older ones, if it is no power of two, as if it were up
   * to 2.2 % lower.
   *
   * @default 1, 2, 4 … 65536; with `timeUnit: "s"` 1/1024, 1/512 … 64
   */
  readonly bounds?: readonly number[] | undefined;
  /**
   * The unit of `timed()` and `startTimer()`.
   *
   * @default "ms"
   */
  readonly timeUnit?: "ms" | "s" | undefined;
}

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
   * @default 7 days
   */
  readonly keepMs?: number | undefined;
  /**
   * Width of the windows in which messages are counted, and how long each is kept.
   *
   * @default { stepMs: 3_600_000, keepMs: 172_800_000 }
   */
  readonly window?: Precision | undefined;
  /**
   * How many different messages of each level a window counts. More frequent ones replace rarer ones.
   *
   * @default 1000
   */
  readonly maxDistinct?: number | undefined;
  /**
   * Whether numbers, ids, addresses and quoted parts are left out when messages are compared.
   *
   * @default true
   */
  readonly mask?: boolean | undefined;
  /**
   * The longest text, in bytes of UTF-8; longer ones are cut between characters.
   *
   * @default 8192
   */
  readonly maxTextBytes?: number | undefined;
  /** @default that of the statistics object */
  readonly delivery?: Delivery | undefined;
}

/** One amount or value. */
export interface WriteOptions {
  /**
   * When it happened, epoch milliseconds by the server's clock. 0 is an instant, too. An amount more than a minute ahead of
   * the server is dropped; a precision that no longer keeps the instant does not store it.
   *
   * @default now
   */
  readonly at?: number | undefined;
}

/** Settings of an amount or value whose caller waits. */
export interface ConfirmOptions extends WriteOptions {
  readonly signal?: AbortSignal | undefined;
  /** The `op` of a `KitUnknownOutcomeError`: waits for the amount of that call instead of adding another. */
  readonly op?: string | undefined;
}

/** A span of calendar days. */
export interface DaysOptions {
  /** A name of the IANA database, such as `Europe/Berlin`; `UTC` is one, too. */
  readonly timeZone: string;
  /** How many, today included, 1 to 1,000. */
  readonly lastDays: number;
}

/** A span of time, and how many subjects to list. */
export interface SlowestOptions extends RangeOptions {
  /**
   * How many.
   *
   * @default 10
   */
  readonly limit?: number | undefined;
}

/** Details of one message. */
export interface LogOptions {
  /**
   * Anything JSON can write, at most `maxTextBytes` long. An `Error` among its values is written as name, message and stack.
   *
   * @default {}
   */
  readonly fields?: Readonly<Record<string, unknown>> | undefined;
  /**
   * The message is counted under this text, 1 to 200 characters.
   *
   * @default its text, masked
   */
  readonly fingerprint?: string | undefined;
}

/** A page of entries. */
export interface RecentOptions {
  /** Only this level. */
  readonly level?: Level | undefined;
  /** @default "trace" */
  readonly minLevel?: Level | undefined;
  /**
   * How many at most, 1 to 1,000.
   *
   * @default 100
   */
  readonly limit?: number | undefined;
  /** The `next` of the page before. */
  readonly before?: string | undefined;
}

/** How to follow a log. */
export interface TailOptions {
  /** @default "trace" */
  readonly minLevel?: Level | undefined;
  /**
   * How many of the existing entries come first, 0 to 1,000.
   *
   * @default 0
   */
  readonly last?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A span of time, and the messages to list. */
export interface FrequentOptions extends Omit<RangeOptions, "stepMs"> {
  /** @default all */
  readonly level?: Level | undefined;
  /**
   * How many at most, 1 to 1,000.
   *
   * @default 20
   */
  readonly limit?: number | undefined;
}

/** The processes whose numbers an exposition shows. */
export type ExpositionScope = "shared" | "local";

/** Scope and format of an exposition. */
export interface ExposeOptions {
  /** @default "prometheus" */
  readonly format?: ExpositionFormat | undefined;
  /**
   * - `shared`: the totals of all processes, from the server; each process shows the same, so scrape only one
   * - `local`: what the server has confirmed of this object since it was made; scrape each process, and add them up
   *
   * @default "shared"
   */
  readonly scope?: ExpositionScope | undefined;
  /**
   * Objects whose `metrics()` are shown, too: always those of this process.
   *
   * @default []
   */
  readonly include?: readonly MetricSource[] | undefined;
}

const dayMs = 86_400_000;
const hourMs = 3_600_000;

/** Options with every default filled in. */
type Filled<Options> = { readonly [Name in keyof Options]-?: NonNullable<Options[Name]> };

export type StatsSettings = Filled<StatsOptions>;
export type MetricSettings = Filled<MetricOptions<string>>;
export interface CounterSettings extends MetricSettings {
  readonly precisions: readonly Step[];
}
export interface DistributionSettings extends Filled<Omit<DistributionOptions<string>, "windows">> {
  readonly windows: readonly Step[];
}
export interface MessagesSettings extends Filled<Omit<MessagesOptions, "window">> {
  readonly window: Step;
}

const deliveryOption = (value: Delivery): Delivery =>
  choiceOption("delivery", value, ["at-most-once", "at-least-once", "effectively-once"]);

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const statsSettings = (options: StatsOptions): StatsSettings => {
  const own = optionsObject("options", options, [...clientOptionNames, "flushMs", "maxPending", "delivery"]);
  const { flushMs = 250, maxPending = 100_000, delivery = "effectively-once" } = own;
  return {
    ...clientSettings(own),
    flushMs: integerOption("flushMs", flushMs, 1, 60_000),
    maxPending: integerOption("maxPending", maxPending, 1, 100_000_000),
    delivery: deliveryOption(delivery),
  };
};

const metricNames = ["help", "labelNames", "maxSeries", "delivery"];

const metricSettings = (own: MetricOptions<string>, stats: StatsSettings): MetricSettings => {
  const { help = "", maxSeries = 2_000, delivery = stats.delivery } = own;
  if (typeof help !== "string") throw new TypeError(`Expected \`help\` to be a string, got ${typeof help}`);
  return {
    help,
    // Sorted, since a second definition may have them in another order.
    labelNames: labelNames(own.labelNames ?? []).toSorted((one, other) => (one < other ? -1 : 1)),
    maxSeries: integerOption("maxSeries", maxSeries, 1, 1_000_000),
    delivery: deliveryOption(delivery),
  };
};

const defaultPrecisions: readonly Precision[] = [
  { stepMs: 1_000, keepMs: 600_000 },
  { stepMs: 60_000, keepMs: dayMs },
  { stepMs: 900_000, keepMs: 90 * dayMs },
];

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const counterSettings = (
  options: CounterOptions<string>,
  stats: StatsSettings,
  bucketsPerKey: number,
): CounterSettings => {
  const own = optionsObject("options", options, [...metricNames, "precisions"]);
  const { precisions = defaultPrecisions } = own;
  return { ...metricSettings(own, stats), precisions: precisionsOption("precisions", precisions, bucketsPerKey) };
};

const defaultWindows: readonly Precision[] = [
  { stepMs: 60_000, keepMs: 3 * hourMs },
  { stepMs: hourMs, keepMs: 14 * dayMs },
];

const powersOfTwo = (first: number): number[] => Array.from({ length: 17 }, (_, index) => 2 ** (first + index));

const boundsOption = (bounds: readonly number[]): readonly number[] => {
  const given: unknown = bounds;
  if (!Array.isArray(given) || given.length === 0 || given.length > 64)
    throw new TypeError("Expected `bounds` to be an array of 1 to 64 numbers");
  if (!bounds.every((bound, index) => Number.isFinite(bound) && (index === 0 || bound > (bounds[index - 1] ?? 0))))
    throw new RangeError("Expected `bounds` to be finite numbers that ascend");
  return [...bounds];
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const distributionSettings = (
  options: DistributionOptions<string>,
  stats: StatsSettings,
): DistributionSettings => {
  const own = optionsObject("options", options, [
    ...metricNames,
    "windows",
    "maxBins",
    "slowest",
    "bounds",
    "timeUnit",
  ]);
  const { windows = defaultWindows, maxBins = 1_024, slowest = 0, timeUnit = "ms" } = own;
  const { bounds = powersOfTwo(timeUnit === "s" ? -10 : 0) } = own;
  return {
    ...metricSettings(own, stats),
    bounds: boundsOption(bounds),
    windows: precisionsOption("windows", windows, 1),
    maxBins: integerOption("maxBins", maxBins, 16, 2_048),
    slowest: integerOption("slowest", slowest, 0, 1_000),
    timeUnit: choiceOption("timeUnit", timeUnit, ["ms", "s"]),
  };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const messagesSettings = (options: MessagesOptions, stats: StatsSettings): MessagesSettings => {
  const names = ["keepEntries", "keepMs", "window", "maxDistinct", "mask", "maxTextBytes", "delivery"];
  const own = optionsObject("options", options, names);
  const { keepEntries = 100, keepMs = 7 * dayMs, maxDistinct = 1_000, mask = true, maxTextBytes = 8_192 } = own;
  const { window = { stepMs: hourMs, keepMs: 2 * dayMs }, delivery = stats.delivery } = own;
  const [step] = precisionsOption("window", [window], 1);
  return {
    keepEntries: integerOption("keepEntries", keepEntries, 1, 100_000),
    keepMs: integerOption("keepMs", keepMs, 1_000, 3_660 * dayMs),
    window: step as Step,
    maxDistinct: integerOption("maxDistinct", maxDistinct, 1, 10_000),
    mask: booleanOption("mask", mask),
    maxTextBytes: integerOption("maxTextBytes", maxTextBytes, 1, 1_048_576),
    delivery: deliveryOption(delivery),
  };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const writeOptions = (options: WriteOptions): WriteOptions => {
  const { at } = optionsObject<WriteOptions>("options", options, ["at"]);
  return { at: at === undefined ? undefined : instantOption("at", at) };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const confirmOptions = (options: ConfirmOptions): ConfirmOptions => {
  const { at, signal, op } = optionsObject<ConfirmOptions>("options", options, ["at", "signal", "op"]);
  return {
    at: at === undefined ? undefined : instantOption("at", at),
    signal: signalOption("signal", signal),
    op: op === undefined ? undefined : textOption("op", op, 128),
  };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const exposeOptions = (options: ExposeOptions): Filled<ExposeOptions> => {
  const own = optionsObject<ExposeOptions>("options", options, ["format", "scope", "include"]);
  const { format = "prometheus", scope = "shared", include = [] } = own;
  if (!Array.isArray(include) || include.some((one: Partial<MetricSource>) => typeof one.metrics !== "function"))
    throw new TypeError("Expected `include` to be an array of objects with `metrics()`");
  return {
    format: choiceOption("format", format, ["prometheus", "openmetrics"]),
    scope: choiceOption("scope", scope, ["shared", "local"]),
    include,
  };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const daysOptions = (options: DaysOptions): DaysOptions => {
  const { timeZone, lastDays } = optionsObject<DaysOptions>("options", options, ["timeZone", "lastDays"]);
  return {
    timeZone: textOption("timeZone", timeZone, 100),
    lastDays: integerOption("lastDays", lastDays, 1, 1_000),
  };
};

/** @throws {TypeError | RangeError} it is no text of 1 to 500 characters. */
export const subjectOption = (subject: string | undefined): string | undefined =>
  subject === undefined ? undefined : textOption("subject", subject, 500);

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const slowestOptions = (
  options: SlowestOptions,
  slowest: number,
): { readonly limit: number; readonly range: RangeOptions } => {
  const { limit = 10, ...range } = optionsObject<SlowestOptions>("options", options, [...rangeNames, "limit"]);
  return { limit: integerOption("limit", limit, 1, slowest < 10 ? 10 : slowest), range };
};

const levelOption = (name: string, level: Level | undefined): Level | undefined =>
  level === undefined ? undefined : choiceOption(name, level, levelNames);

/** An error has no own fields that JSON would write. */
const withErrors = (_key: string, value: unknown): unknown =>
  value instanceof Error ? { name: value.name, message: value.message, stack: value.stack } : value;

/** @throws {TypeError | RangeError} an option is not what it should be, or the fields are no JSON or too long. */
export const logOptions = (
  options: LogOptions,
  maxBytes: number,
): { readonly fields: string; readonly fingerprint: string | undefined } => {
  const { fields, fingerprint } = optionsObject<LogOptions>("options", options, ["fields", "fingerprint"]);
  if (fields !== undefined && (typeof fields !== "object" || fields === null || Array.isArray(fields)))
    throw new TypeError("Expected `fields` to be an object");
  // `toJSON` may return undefined.
  const json = fields === undefined ? "" : ((JSON.stringify(fields, withErrors) as string | undefined) ?? "");
  if (Buffer.byteLength(json) > maxBytes)
    throw new RangeError(`Expected \`fields\` to have at most ${String(maxBytes)} bytes as JSON`);
  if (fingerprint !== undefined) wellFormed("`fingerprint`", textOption("fingerprint", fingerprint, 200));
  return { fields: json, fingerprint };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const recentOptions = (options: RecentOptions): RecentOptions & { readonly limit: number } => {
  const own = optionsObject<RecentOptions>("options", options, ["level", "minLevel", "limit", "before"]);
  const { level, minLevel, limit = 100, before } = own;
  if (level !== undefined && minLevel !== undefined)
    throw new TypeError("Expected either `level` or `minLevel`, got both");
  if (before !== undefined && !/^(trace|debug|info|warn|error|fatal) \d+-\d+$/.test(textOption("before", before, 100)))
    throw new RangeError("Expected `before` to be the `next` of a page");
  return {
    level: levelOption("level", level),
    minLevel: levelOption("minLevel", minLevel),
    limit: integerOption("limit", limit, 1, 1_000),
    before,
  };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const tailOptions = (options: TailOptions): TailOptions & { readonly last: number } => {
  const { minLevel, last = 0, signal } = optionsObject<TailOptions>("options", options, ["minLevel", "last", "signal"]);
  return {
    minLevel: levelOption("minLevel", minLevel),
    last: integerOption("last", last, 0, 1_000),
    signal: signalOption("signal", signal),
  };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const frequentOptions = (
  options: FrequentOptions,
): { readonly level: Level | undefined; readonly limit: number; readonly range: RangeOptions } => {
  const own = optionsObject<FrequentOptions>("options", options, ["lastMs", "fromAt", "toAt", "level", "limit"]);
  const { level, limit = 20, ...range } = own;
  return { level: levelOption("level", level), limit: integerOption("limit", limit, 1, 1_000), range };
};
