import { type Labels, labelValues, overflowValue, seriesId } from "./labels.js";
import type { MetricSettings } from "./options.js";
import type { Outbox } from "./outbox.js";
import type { Shared } from "./shared.js";

/** A series gives its place back when it was idle for this long, and is looked at so often at most. */
const idleMs = 600_000;
const lookEveryMs = 30_000;

/** Series by the value of one label after the other. */
type Tree<Series> = Map<unknown, Tree<Series> | Series>;

/** A series, as the map keeps it. The published types leave its member out here as they do in the series. */
export interface Kept {
  /** @internal */
  readonly outbox: Outbox;
}

/** The series of one metric in this process: found by label values, at most so many at a time. */
export class SeriesMap<Series extends Kept> {
  readonly #metric: string;
  readonly #settings: MetricSettings;
  readonly #make: (id: string, values: readonly string[]) => Series;
  readonly #onOverflow: () => void;
  readonly #places = new Map<string, Series>();
  /** The same series by label values as they were given, checked then: what was found here once needs no second look. */
  #known: Tree<Series> = new Map();
  #knownSize = 0;
  /** Where there are no labels. */
  #only: Series | undefined;
  #overflow: Series | undefined;
  #lookedAt = -Infinity;

  constructor(
    metric: string,
    settings: MetricSettings,
    make: (id: string, values: readonly string[]) => Series,
    onOverflow: () => void,
  ) {
    this.#metric = metric;
    this.#settings = settings;
    this.#make = make;
    this.#onOverflow = onOverflow;
  }

  get size(): number {
    return this.#places.size + (this.#only ? 1 : 0) + (this.#overflow ? 1 : 0);
  }

  /** Whether the metric has labels: then they are the first argument of each call. */
  get isLabelled(): boolean {
    return this.#settings.labelNames.length > 0;
  }

  *all(): Iterable<Series> {
    if (this.#only) yield this.#only;
    if (this.#overflow) yield this.#overflow;
    yield* this.#places.values();
  }

  /** The series without labels. */
  only(): Series {
    return (this.#only ??= this.#made([]));
  }

  /**
   * The series of these labels; the overflow series where there is no room for another.
   *
   * @throws {TypeError | RangeError} the labels are not those of the metric.
   */
  of(labels: Readonly<Record<string, unknown>>): Series {
    const { labelNames } = this.#settings;
    if (labelNames.length === 0) {
      labelValues(labelNames, labels);
      return this.only();
    }
    return (
      this.#lookUp(labels) ?? this.#slow(labels) ?? (this.#overflow ??= this.#made(labelNames.map(() => overflowValue)))
    );
  }

  /** The id that labels have, whether their series has a place or not. */
  idOf(labels: Readonly<Record<string, unknown>>): string {
    const { labelNames } = this.#settings;
    return seriesId(this.#metric, labelNames, labelValues(labelNames, labels));
  }

  /** Takes no time for checks: labels that are not well known are not found. */
  #lookUp(labels: Readonly<Record<string, unknown>>): Series | undefined {
    const { labelNames } = this.#settings;
    if (typeof labels !== "object" || labels === null) return undefined;
    let count = 0;
    for (const _ in labels) count++;
    if (count !== labelNames.length) return undefined;
    let found: Tree<Series> | Series | undefined = this.#known;
    for (const name of labelNames) {
      if (!Object.hasOwn(labels, name)) return undefined;
      found = (found as Tree<Series>).get(labels[name]);
      if (found === undefined) return undefined;
    }
    return found as Series;
  }

  #remember(labels: Readonly<Record<string, unknown>>, series: Series): void {
    const { labelNames, maxSeries } = this.#settings;
    // `1` and "1" are two keys of one series.
    if (++this.#knownSize > 2 * maxSeries) this.#forget();
    let tree = this.#known;
    for (const name of labelNames.slice(0, -1)) {
      let next = tree.get(labels[name]) as Tree<Series> | undefined;
      if (!next) tree.set(labels[name], (next = new Map()));
      tree = next;
    }
    tree.set(labels[labelNames.at(-1) ?? ""], series);
  }

  #forget(): void {
    this.#known = new Map();
    this.#knownSize = 0;
  }

  /** Undefined: no room. */
  #slow(labels: Readonly<Record<string, unknown>>): Series | undefined {
    const { labelNames, maxSeries } = this.#settings;
    const values = labelValues(labelNames, labels);
    const key = keyOf(values);
    let series = this.#places.get(key);
    if (!series) {
      if (this.#places.size >= maxSeries) this.#dropIdle();
      if (this.#places.size >= maxSeries) {
        if (!this.#overflow) this.#onOverflow();
        return undefined;
      }
      this.#places.set(key, (series = this.#made(values)));
    }
    this.#remember(labels, series);
    return series;
  }

  #made(values: readonly string[]): Series {
    return this.#make(seriesId(this.#metric, this.#settings.labelNames, values), values);
  }

  #dropIdle(): void {
    const now = performance.now();
    if (now - this.#lookedAt < lookEveryMs) return;
    this.#lookedAt = now;
    for (const [key, { outbox }] of this.#places)
      if (now - outbox.usedAt > idleMs && !outbox.isListed) this.#places.delete(key);
    this.#forget();
  }

  /** The series of a call's arguments: by its labels, which come first where the metric has any. */
  from(args: readonly unknown[]): Series {
    return this.isLabelled ? this.of(args[0] as Record<string, unknown>) : this.only();
  }

  /** Where the other arguments of a call begin. */
  get first(): 0 | 1 {
    return this.isLabelled ? 1 : 0;
  }
}

/** Where a map finds label values: with their lengths, so that no two lists are one text. */
const keyOf = (values: readonly string[]): string => values.map((value) => `${String(value.length)}:${value}`).join("");

/** A metric: its series, and how a call finds the one that it means. */
export abstract class Metric<Names extends string, Series extends Kept> {
  readonly name: string;
  readonly help: string;
  /** @internal */
  readonly map: SeriesMap<Series>;
  protected readonly shared: Shared;

  /** Made by this package only. */
  constructor(name: string, settings: MetricSettings, shared: Shared, make: (id: string) => Series) {
    this.name = name;
    this.help = settings.help;
    this.shared = shared;
    this.map = new SeriesMap(name, settings, make, () => shared.events.overflow(name, settings.maxSeries));
  }

  /** One series, for many calls: it is looked up once. It keeps counting even when it has given its place back. */
  series(labels: Labels<Names>): Series {
    return this.map.of(labels);
  }

  /** Calls `method` of the series that `args` begin with, with the others; labels that are wrong reject. */
  protected ask<Rest extends readonly unknown[], Result>(
    args: readonly unknown[],
    method: (series: Series, ...rest: Rest) => Promise<Result>,
  ): Promise<Result> {
    try {
      return method(this.map.from(args), ...(args.slice(this.map.first) as unknown as Rest));
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }
}
