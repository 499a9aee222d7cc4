import { type ExpositionFormat, type Family, histogramSamples } from "../metric/exposition.js";
import { type Labelled, type Labels, labelValues } from "../metric/labels.js";
import { Metric } from "../metric/metric.js";
import type { ExpositionScope } from "../metric/options.js";
import type { Shared } from "../send/shared.js";
import type { RangeOptions } from "../time/buckets.js";
import { mergedParts } from "./merged.js";
import {
  type DistributionSettings,
  type ObserveOptions,
  observeOptions,
  type RecordOptions,
  type SlowestOptions,
} from "./options.js";
import type { Recorded } from "./outbox.js";
import { DistributionSeries, type WindowSummary } from "./series.js";
import { Summary } from "./summary.js";

/** How a timed call ended. */
export type Outcome = "ok" | "error";

/** The label that timers fill in, if a distribution has it. */
const outcomeLabel = "outcome";
type TimedNames<Names extends string> = Exclude<Names, typeof outcomeLabel>;
type StartArgs<Names extends string> = [TimedNames<Names>] extends [never]
  ? [options?: ObserveOptions]
  : [labels?: Partial<Labels<TimedNames<Names>>>, options?: ObserveOptions];

/**
 * Ends a timer: observes the elapsed time, once, and returns it. Pass the outcome (`"ok"` by default), or labels that were
 * not known at the start. A label that you leave out, or that is `undefined`, is empty. A call that throws for invalid labels
 * has no effect.
 */
export type EndTimer<Names extends string = string> = (end?: Outcome | Partial<Labels<Names>>) => number;

/**
 * Named values. Their count, sum, mean, deviation, extremes and quantiles are kept, for each set of label values and for
 * windows of time. Create it with `stats.distribution()`. If the distribution has labels, pass them as the first argument of
 * each method.
 */
export class Distribution<Names extends string = never> extends Metric<Names, DistributionSeries> {
  /** @internal */
  protected override readonly totals = "dist";
  readonly #settings: DistributionSettings;

  /** For this package only: use `stats.distribution()`. */
  constructor(name: string, settings: DistributionSettings, shared: Shared) {
    super(name, settings, shared, (id) => new DistributionSeries(id, settings, shared));
    this.#settings = settings;
  }

  /** Same as {@link DistributionSeries.observe}. */
  observe(...args: Labelled<Names, [value: number, options?: ObserveOptions]>): void {
    // Like a counter's `inc()`, it creates no array.
    const { map } = this;
    const { first } = map;
    const given: readonly unknown[] = args;
    map.from(given).observe(given[first] as number, given[first + 1] as ObserveOptions | undefined);
  }

  /** Same as {@link DistributionSeries.record}. */
  record(...args: Labelled<Names, [value: number, options?: RecordOptions]>): Promise<Recorded> {
    return this.call(args, "record");
  }

  /**
   * Runs `routine`, and observes how long it took. If the distribution has the label `outcome`, don't pass it: kit sets it to
   * `ok`, or to `error` if the routine throws.
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
   * Starts a timer, which the returned function ends. You can pass labels at the start, at the end, or some at each. Labels
   * at the end override labels at the start. The end throws only for an unknown or invalid label, and then observes nothing.
   * In a `finally` block, only such a throw hides the work's own error.
   *
   * @throws {TypeError | RangeError} a label is unknown or invalid.
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

  /** Same as {@link DistributionSeries.summary}. */
  summary(...args: Labelled<Names, [range: RangeOptions]>): Promise<Summary> {
    return this.call(args, "summary");
  }

  /** Same as {@link DistributionSeries.total}. */
  total(...args: Labelled<Names, []>): Promise<Summary> {
    return this.call(args, "total");
  }

  /** Same as {@link DistributionSeries.windows}. */
  windows(...args: Labelled<Names, [range: RangeOptions]>): Promise<WindowSummary[]> {
    return this.call(args, "windows");
  }

  /** Same as {@link DistributionSeries.slowest}. */
  slowest(
    ...args: Labelled<Names, [options: SlowestOptions]>
  ): Promise<{ readonly subject: string; readonly value: number }[]> {
    return this.call(args, "slowest");
  }

  /** @internal */
  override async family(scope: ExpositionScope, format: ExpositionFormat): Promise<Family> {
    const { name, help } = this;
    const { bounds } = this.#settings;
    const all = await this.shown(
      scope,
      ({ outbox: { localMoments, localUpTo } }) => ({ upTo: localUpTo, moments: localMoments }),
      (hash) => {
        const { moments, sketch } = mergedParts([hash]);
        return { upTo: sketch.upTo(bounds), moments };
      },
    );
    const samples = all.flatMap(([labels, { upTo, moments }]) => {
      const { count, sum } = new Summary(moments);
      return histogramSamples(bounds, { labels, upTo, count, sum }, format);
    });
    return { name, type: "histogram", help, samples };
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
    const own = options && observeOptions(options);
    // A copy: later changes by the caller have no effect. Invalid labels are rejected before the work starts.
    const given: Record<string, unknown> = Object.fromEntries(labelNames.map((name) => [name, ""]));
    const take = (into: Record<string, unknown>, some: unknown): void => {
      if (typeof some !== "object" || some === null) throw new TypeError("Expected `labels` to be an object");
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
      // Another copy: if `end` threw, the caller can call it again with valid labels.
      const ended = { ...given };
      if (typeof end !== "string") take(ended, end);
      else if (outcomeLabel in ended) ended[outcomeLabel] = end;
      this.map.of(ended).observe(elapsed, own);
      return (taken = elapsed);
    };
  }
}
