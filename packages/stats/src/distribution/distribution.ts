import { resolve, type RulesOf, text, traced } from "@kit/core/toolkit";
import { floorTo, isPartial, keyStarts, maxAheadMs, planRange, type RangeOptions, type Step } from "../time/buckets.js";
import { type SeriesKeys, seriesKeys } from "../keys.js";
import { type ExpositionFormat, type Family, histogramSamples, type HistogramSeries } from "../metric/exposition.js";
import { type Labelled, type Labels, labelsOf, labelValues } from "../metric/labels.js";
import { Metric } from "../metric/metric.js";
import { addMoments, addValue, type Moments, momentsOf, momentsPlan, noMoments } from "./moments.js";
import {
  confirmRules,
  type ConfirmOptions,
  type DistributionSettings,
  type ExpositionScope,
  slowestOptions,
  type SlowestOptions,
  writeRules,
  type WriteOptions,
} from "../options.js";
import { Aggregate, type Batch, type Operands, Outbox } from "../send/outbox.js";
import * as scripts from "../scripts/index.js";
import type { Shared } from "../shared.js";
import { type DividedBins, dividedBins, Sketch } from "./sketch.js";
import { Summary } from "./summary.js";
import { Timeline } from "../time/timeline.js";

/** One observation. */
export interface ObserveOptions extends WriteOptions {
  /**
   * The subject of the measurement (a path, an id), for the list of the slowest. Kept only by a distribution with `slowest`.
   *
   * @default none
   */
  readonly subject?: string | undefined;
}

export const observeRules = { ...writeRules, subject: text(500) } satisfies RulesOf<ObserveOptions>;

/** Settings of an observation whose caller waits. */
export type RecordOptions = ObserveOptions & ConfirmOptions;

export const recordRules = { ...observeRules, ...confirmRules } satisfies RulesOf<RecordOptions>;

/** The values including a new observation. */
export interface Recorded {
  /** Those of the widest window, without quantiles. */
  readonly window: Summary;
  /** Those of all time that is kept, without quantiles. */
  readonly total: Summary;
}

/** The values of one window. */
export interface WindowSummary {
  readonly startAt: number;
  readonly summary: Summary;
  /** The window has not ended yet, or its beginning is no longer kept. */
  readonly isPartial: boolean;
}

/** How a timed call ended. */
export type Outcome = "ok" | "error";

/** The label that timers fill in, if a distribution has it. */
const outcomeLabel = "outcome";
type TimedNames<Names extends string> = Exclude<Names, typeof outcomeLabel>;
type StartArgs<Names extends string> = [TimedNames<Names>] extends [never]
  ? [options?: ObserveOptions]
  : [labels?: Partial<Labels<TimedNames<Names>>>, options?: ObserveOptions];

/**
 * Ends a timer: observes the elapsed time, once, and returns it. It takes the outcome (`"ok"` by default), or labels that were
 * not known at the start. A label that nobody named, or named `undefined`, is empty. A call that throws for wrong labels has no effect.
 */
export type EndTimer<Names extends string = string> = (end?: Outcome | Partial<Labels<Names>>) => number;

const noOptions = {};
const dayMs = 86_400_000;

const valueOption = (value: unknown): number => {
  if (typeof value !== "number") throw new TypeError(`Expected \`value\` to be a number, got ${typeof value}`);
  if (!Number.isFinite(value)) throw new RangeError(`Expected \`value\` to be finite, got ${String(value)}`);
  return value;
};

const raise = (values: Map<string, number>, subject: string, value: number): void => {
  values.set(subject, Math.max(value, values.get(subject) ?? -Infinity));
};

const largest = (values: ReadonlyMap<string, number>, count: number): [subject: string, value: number][] =>
  [...values].toSorted(([, a], [, b]) => b - a).slice(0, count);

/** The values of one window of the finest width. */
class WindowPart {
  readonly moments: Moments = noMoments();
  readonly sketch: Sketch;
  listed: Map<string, number> | undefined;

  constructor(divided: DividedBins) {
    this.sketch = new Sketch(divided);
  }

  add(value: number, subject: string | undefined, slowest: number): void {
    addValue(this.moments, value);
    this.sketch.add(value);
    if (subject !== undefined && slowest > 0) this.list(subject, value, slowest);
  }

  list(subject: string, value: number, slowest: number): void {
    const listed = (this.listed ??= new Map<string, number>());
    raise(listed, subject, value);
    if (listed.size > 2 * slowest) this.listed = new Map(largest(listed, slowest));
  }

  absorb(other: WindowPart, slowest: number): void {
    addMoments(this.moments, other.moments);
    this.sketch.absorb(other.sketch);
    for (const [subject, value] of other.listed ?? []) this.list(subject, value, slowest);
  }
}

const observations = (
  { windows, slowest }: DistributionSettings,
  divided: DividedBins,
  { clock }: Shared,
): Aggregate<WindowPart> => {
  const [finest] = windows as [Step];
  const make = (): WindowPart => new WindowPart(divided);
  const merge = (into: WindowPart, from: WindowPart): void => into.absorb(from, slowest);
  return new Aggregate(new Timeline(finest.stepMs, clock, { make, merge }));
};

class DistributionOutbox extends Outbox<Aggregate<WindowPart>, Recorded> {
  readonly keys: SeriesKeys;
  readonly #shared: Shared;
  readonly #settings: DistributionSettings;
  /** The part that the server has confirmed. */
  readonly localMoments: Moments = noMoments();
  /** How many of those values are at most each bound. */
  readonly localUpTo: number[];

  constructor(id: string, settings: DistributionSettings, shared: Shared) {
    const { delivery, bounds } = settings;
    const divided = dividedBins(bounds);
    super(id, shared.sender, { channel: scripts.merge, delivery, make: () => observations(settings, divided, shared) });
    this.#shared = shared;
    this.keys = seriesKeys(shared.prefix, id);
    this.#settings = settings;
    this.localUpTo = bounds.map(() => 0);
  }

  protected override unitsOf({ moments }: WindowPart): number {
    return moments.count;
  }

  override operands(seq: number, buffered: Aggregate<WindowPart>, awaited: Aggregate<WindowPart>): Operands {
    const { maxBins, slowest } = this.#settings;
    const keys = [this.keys.dist, this.keys.writer(this.writer)];
    const partials: (string | number)[] = [];
    let count = 0;
    for (const { timeline } of [buffered, awaited])
      for (const [at, partial] of timeline.entries()) {
        count++;
        partials.push(...this.#partialPlan(at, partial, keys));
      }
    const plan = [seq, keys.length, this.#keepMs(), maxBins, slowest, count, ...partials];
    return { keys, plan: [plan.length, ...plan] };
  }

  override counted({ buffered, awaited }: Batch<Aggregate<WindowPart>, Recorded>, { total }: Recorded): void {
    for (const { timeline } of [buffered, awaited])
      for (const { moments, sketch } of timeline.values()) {
        addMoments(this.localMoments, moments);
        sketch.upTo(this.#settings.bounds).forEach((count, index) => (this.localUpTo[index]! += count ?? 0));
      }
    this.#shared.index.counted(this.id, this.#keepMs(), total.count === buffered.units + awaited.units);
  }

  override decode(reply: string): Recorded {
    const numbers = reply.split(" ");
    const summary = (first: number): Summary =>
      new Summary(momentsOf((_, index) => numbers[first + index]) ?? noMoments());
    return { window: summary(0), total: summary(8) };
  }

  #partialPlan(at: number, { moments, sketch, listed }: WindowPart, keys: string[]): (string | number)[] {
    const { windows, maxBins, slowest } = this.#settings;
    const now = this.#shared.clock.now();
    const untils: number[] = [];
    for (const { stepMs, keepMs } of windows) {
      const start = floorTo(at, stepMs);
      // It would expire at once.
      if (start + stepMs + keepMs <= now) continue;
      untils.push(start + stepMs + keepMs);
      keys.push(this.keys.window(stepMs, start));
      if (slowest > 0) keys.push(this.keys.slowest(stepMs, start));
    }
    const fields = sketch.fields(maxBins);
    const bounds = sketch.boundFields();
    const entries = [...(listed ?? [])].flatMap(([subject, value]) => [value, subject]);
    const lengths = [untils, fields, bounds, entries].map(({ length }) => length);
    return [...lengths, ...momentsPlan(moments), ...untils, ...fields, ...bounds, ...entries];
  }

  /** The distribution of all time outlives every window. */
  #keepMs(): number {
    return Math.max(...this.#settings.windows.map(({ stepMs, keepMs }) => stepMs + keepMs)) + maxAheadMs + dayMs;
  }
}

/** One series of a distribution: the distribution with values for its labels. */
export class DistributionSeries {
  /** @internal */
  readonly outbox: DistributionOutbox;
  readonly #shared: Shared;
  readonly #settings: DistributionSettings;
  /** The fields of its spans. */
  readonly #facts = (): object => ({ series: this.id });

  /** Only this package calls it. */
  constructor(id: string, settings: DistributionSettings, shared: Shared) {
    this.outbox = new DistributionOutbox(id, settings, shared);
    this.#shared = shared;
    this.#settings = settings;
  }

  /** `name;label=value;…`, the name of the series in Redis. */
  get id(): string {
    return this.outbox.id;
  }

  /**
   * Takes in a value, and returns at once: it is sent within `flushMs`, merged with others.
   *
   * Nothing is thrown for values that cannot be counted: a full buffer, an instant too far ahead, or a closed object is
   * reported by the event `dropped`. A process that is killed loses what it had not sent.
   *
   * @throws {TypeError | RangeError} `value` is no finite number, or an option is not what it should be.
   */
  observe(value: number, options: ObserveOptions = noOptions): void {
    const valid = valueOption(value);
    const { at, subject } =
      options === noOptions ? (noOptions as ObserveOptions) : resolve("options", options, observeRules);
    const { life, sender } = this.#shared;
    const { outbox } = this;
    if (life.isClosed) return sender.drop(this.id, "closed", 1);
    const partial = outbox.buffered.timeline.slot(at, sender.admit);
    if (!partial) return sender.drop(this.id, "full", 1);
    partial.add(valid, subject, this.#settings.slowest);
    outbox.buffered.units++;
    if (!outbox.isListed) sender.list(outbox);
  }

  /**
   * Adds a value, and resolves with the new totals once the server has it. They include values of other callers in the same
   * call.
   *
   * @throws {StatsTimeError} `at` lies more than a minute ahead of the server; nothing was counted.
   * @throws {KitUnavailableError} no server answered in time; nothing was counted.
   * @throws {KitUnknownOutcomeError} the reply is lost. In effectively-once delivery the value is sent again in the
   *   background, and `record(value, { op: error.op })` waits for that.
   * @throws {KitClosedError} after `close()`.
   */
  record(value: number, options: RecordOptions = noOptions): Promise<Recorded> {
    return traced("stats.record", this.#facts, () => {
      const valid = valueOption(value);
      const checked = resolve("options", options, recordRules);
      return this.#shared.sender.confirm(this.outbox, checked, (awaited, partial) => {
        partial.add(valid, checked.subject, this.#settings.slowest);
        awaited.units++;
      });
    });
  }

  /** All values over a span of time, as one summary. @throws as {@link windows} does. */
  summary(range: RangeOptions): Promise<Summary> {
    return traced("stats.summary", this.#facts, async () => {
      const { parts } = await this.#parts(range);
      return merged(parts.map(([, hash]) => hash));
    });
  }

  /** All values since the series was first used, while it was kept. */
  total(): Promise<Summary> {
    return traced("stats.total", this.#facts, async () => {
      const { values } = await this.#shared.hashes([this.outbox.keys.dist]);
      return merged(values);
    });
  }

  /**
   * The values over a span of time, window by window, including empty ones.
   *
   * @throws {TypeError | RangeError} an option is not what it should be.
   * @throws {KitUnavailableError} no server answered in time.
   */
  windows(range: RangeOptions): Promise<WindowSummary[]> {
    return traced("stats.windows", this.#facts, async () => {
      const { plan, parts, now } = await this.#parts(range);
      const found = new Map<number, ReadonlyMap<string, string>[]>();
      for (const [at, hash] of parts) {
        const startAt = floorTo(at, plan.stepMs);
        found.set(startAt, [...(found.get(startAt) ?? []), hash]);
      }
      const windows: WindowSummary[] = [];
      for (let startAt = plan.fromAt; startAt < plan.toAt; startAt += plan.stepMs)
        windows.push({
          startAt,
          summary: merged(found.get(startAt) ?? []),
          isPartial: isPartial(plan, startAt, startAt + plan.stepMs, now),
        });
      return windows;
    });
  }

  /**
   * The subjects with the largest single values, over the windows that a span of time overlaps. Each window stores only its
   * first `slowest` ones.
   *
   * @throws {TypeError | RangeError} an option is not what it should be, or the distribution was made without `slowest`.
   */
  slowest(options: SlowestOptions): Promise<{ readonly subject: string; readonly value: number }[]> {
    return traced("stats.slowest", this.#facts, async () => {
      const { slowest, windows } = this.#settings;
      if (slowest === 0) throw new TypeError("This distribution keeps no list: it was made without `slowest`");
      const { limit, range } = slowestOptions(options, slowest);
      const guess = await this.#shared.serverNow();
      const plan = planRange(windows, range, guess);
      const { stepMs } = plan.source;
      const keys = keyStarts(plan, stepMs, guess).map((at) => this.outbox.keys.slowest(stepMs, at));
      const { values: lists } = await this.#shared.read(scripts.largest, keys, ["largest", limit], limit);
      const all = new Map<string, number>();
      for (const [subject, value] of lists.flat()) raise(all, subject, value);
      return largest(all, limit).map(([subject, value]) => ({ subject, value }));
    });
  }

  async #parts(range: RangeOptions) {
    const guess = await this.#shared.serverNow();
    const plan = planRange(this.#settings.windows, range, guess);
    const { stepMs } = plan.source;
    const starts = keyStarts(plan, stepMs, guess).filter((at) => at >= plan.fromAt && at < plan.toAt);
    const { now, values } = await this.#shared.hashes(starts.map((at) => this.outbox.keys.window(stepMs, at)));
    return { plan, now, parts: values.map((hash, index) => [starts[index] ?? 0, hash] as const) };
  }
}

/** The values of several stored hashes together. */
const merged = (hashes: readonly ReadonlyMap<string, string>[]): Summary => {
  const { moments, sketch } = mergedParts(hashes);
  return new Summary(moments, sketch);
};

const mergedParts = (hashes: readonly ReadonlyMap<string, string>[]): { moments: Moments; sketch: Sketch } => {
  const moments = noMoments();
  const sketch = new Sketch();
  for (const hash of hashes) {
    const stored = momentsOf((name) => hash.get(name));
    if (!stored) continue;
    addMoments(moments, stored);
    const own = new Sketch();
    for (const [field, value] of hash) own.addField(field, Number(value));
    own.endFields(stored.min);
    sketch.absorb(own);
  }
  return { moments, sketch };
};

/**
 * Named values whose count, sum, mean, deviation, extremes and quantiles are kept, for every set of label values and by
 * windows of time. Made by `stats.distribution()`. Each method takes the labels first, if the distribution has any.
 */
export class Distribution<Names extends string = never> extends Metric<Names, DistributionSeries> {
  readonly #settings: DistributionSettings;

  /** Only this package calls it. */
  constructor(name: string, settings: DistributionSettings, shared: Shared) {
    super(name, settings, shared, (id) => new DistributionSeries(id, settings, shared));
    this.#settings = settings;
  }

  /** As {@link DistributionSeries.observe}. */
  observe(...args: Labelled<Names, [value: number, options?: ObserveOptions]>): void {
    // Like a counter's `inc()`, it creates no array.
    const { map } = this;
    const { first } = map;
    const given: readonly unknown[] = args;
    map.from(given).observe(given[first] as number, given[first + 1] as ObserveOptions | undefined);
  }

  /** As {@link DistributionSeries.record}. */
  record(...args: Labelled<Names, [value: number, options?: RecordOptions]>): Promise<Recorded> {
    return this.ask(args, "record");
  }

  /**
   * Runs `routine`, and observes how long it took. The label `outcome`, if there is one, is filled in and not passed: `ok`,
   * or `error` when the routine throws.
   *
   * @example
   * await latency.timed({ route: "/cart" }, () => handle(request)); // labelNames: ["route", "outcome"]
   */
  async timed<T>(
    ...args: Labelled<TimedNames<Names>, [routine: () => Promise<T> | T, options?: ObserveOptions]>
  ): Promise<T> {
    const [labels, rest] = this.#timedArgs(args);
    const [routine, options] = rest as readonly [() => Promise<T> | T, ObserveOptions?];
    labelValues(this.#timedNames, labels);
    if (typeof routine !== "function")
      throw new TypeError(`Expected \`routine\` to be a function, got ${typeof routine}`);
    const end = this.#start(labels, options);
    try {
      const result = await routine();
      end("ok");
      return result;
    } catch (error) {
      end("error");
      throw error;
    }
  }

  /**
   * Starts a timer, which the returned function ends. Labels may come at the start, at the end, or some at each; at the end
   * those of the start hold if it does not name them. The end throws only for an unknown label or a wrong value, and observes
   * nothing then. In a `finally` block it hides the error of the work in that case only.
   *
   * @throws {TypeError | RangeError} a label is unknown or wrong.
   *
   * @example
   * const end = latency.startTimer({ route: "/cart" }); // labelNames: ["route", "status"]
   * try {
   *   await handle(request, response);
   * } finally {
   *   end({ status: response.statusCode });
   * }
   */
  startTimer(...args: StartArgs<Names>): EndTimer<Names> {
    const [labels, [options]] = this.#timedArgs(args);
    return this.#start(labels, options as ObserveOptions | undefined);
  }

  /** As {@link DistributionSeries.summary}. */
  summary(...args: Labelled<Names, [range: RangeOptions]>): Promise<Summary> {
    return this.ask(args, "summary");
  }

  /** As {@link DistributionSeries.total}. */
  total(...args: Labelled<Names, []>): Promise<Summary> {
    return this.ask(args, "total");
  }

  /** As {@link DistributionSeries.windows}. */
  windows(...args: Labelled<Names, [range: RangeOptions]>): Promise<WindowSummary[]> {
    return this.ask(args, "windows");
  }

  /** As {@link DistributionSeries.slowest}. */
  slowest(
    ...args: Labelled<Names, [options: SlowestOptions]>
  ): Promise<{ readonly subject: string; readonly value: number }[]> {
    return this.ask(args, "slowest");
  }

  /** @internal For an exposition: values of all processes, or those that were confirmed of this object. */
  async family(scope: ExpositionScope, format: ExpositionFormat): Promise<Family> {
    const { name, help } = this;
    const { bounds } = this.#settings;
    const all = scope === "local" ? this.#localHistograms() : await this.#sharedHistograms();
    return { name, type: "histogram", help, samples: all.flatMap((one) => histogramSamples(bounds, one, format)) };
  }

  #localHistograms(): HistogramSeries[] {
    if (!this.map.isLabelled) this.map.only();
    return [...this.map.all()].map(({ id, outbox: { localMoments, localUpTo } }) => {
      const { count, sum } = new Summary(localMoments);
      return { labels: labelsOf(id), upTo: localUpTo, count, sum };
    });
  }

  async #sharedHistograms(): Promise<HistogramSeries[]> {
    const { bounds } = this.#settings;
    const stored = await this.shared.totals(this.name, this.map.isLabelled, "dist");
    return stored.flatMap(([id, hash]) => {
      if (hash.size === 0 && this.map.isLabelled) return [];
      const { moments, sketch } = mergedParts([hash]);
      const { count, sum } = new Summary(moments);
      return [{ labels: labelsOf(id), upTo: sketch.upTo(bounds), count, sum }];
    });
  }

  /** The labels passed to a timer, without the outcome, and its other arguments. */
  #timedArgs(args: readonly unknown[]): readonly [labels: Record<string, unknown>, rest: readonly unknown[]] {
    if (this.#timedNames.length === 0) return [{}, args];
    const [labels = {}, ...rest] = args;
    return [labels as Record<string, unknown>, rest];
  }

  get #timedNames(): string[] {
    return this.#settings.labelNames.filter((name) => name !== outcomeLabel);
  }

  #start(labels: Record<string, unknown>, options: ObserveOptions | undefined): EndTimer {
    const { labelNames, timeUnit } = this.#settings;
    const own = options && resolve("options", options, observeRules);
    // A copy: later changes by the caller have no effect. Wrong labels are refused before the work begins.
    const given: Record<string, unknown> = Object.fromEntries(labelNames.map((name) => [name, ""]));
    const take = (into: Record<string, unknown>, some: Readonly<Record<string, unknown>>): void => {
      for (const [name, value] of Object.entries(some)) into[name] = value ?? "";
    };
    if (outcomeLabel in given) given[outcomeLabel] = "ok";
    take(given, labels);
    labelValues(labelNames, given);
    const startedAt = performance.now();
    let taken: number | undefined;
    return (end = {}) => {
      if (taken !== undefined) return taken;
      const elapsed = (performance.now() - startedAt) / (timeUnit === "s" ? 1_000 : 1);
      // Another copy: after an end that threw, one with right labels is possible.
      const ended = { ...given };
      if (typeof end !== "string") take(ended, end);
      else if (outcomeLabel in ended) ended[outcomeLabel] = end;
      this.map.of(ended).observe(elapsed, own);
      return (taken = elapsed);
    };
  }
}
