import type { Outbox } from "../send/outbox.js";
import type { Shared } from "../send/shared.js";
import type { ExpositionFormat, Family } from "./exposition.js";
import { type Labels, labelsOf, labelValues, overflowValue, seriesId, type SeriesLabels } from "./labels.js";
import type { ExpositionScope, MetricSettings } from "./options.js";

/** A series that was idle for this long is dropped; this is checked at most this often. */
const idleMs = 600_000;
const lookEveryMs = 30_000;

/** A series of the map. The published types omit its internal member. */
export interface Kept {
  readonly id: string;
  /** @internal */
  readonly outbox: Outbox;
}

/** The series of one metric in this process: found by label values, up to a maximum number. */
export class SeriesMap<Series extends Kept> {
  readonly #metric: string;
  readonly #settings: MetricSettings;
  readonly #make: (id: string) => Series;
  readonly #onOverflow: () => void;
  /** The series by their label values, which were checked when the series was made. */
  readonly #series = new Map<string, Series>();
  /** The series of a metric without labels. */
  #only: Series | undefined;
  #overflow: Series | undefined;
  #lookedAt = -Infinity;

  constructor(metric: string, settings: MetricSettings, make: (id: string) => Series, onOverflow: () => void) {
    this.#metric = metric;
    this.#settings = settings;
    this.#make = make;
    this.#onOverflow = onOverflow;
  }

  get size(): number {
    return this.#series.size + (this.#only ? 1 : 0) + (this.#overflow ? 1 : 0);
  }

  /** Whether the metric has labels, which are then the first argument of each call. */
  get isLabelled(): boolean {
    return this.#settings.labelNames.length > 0;
  }

  *all(): Iterable<Series> {
    if (this.#only) yield this.#only;
    if (this.#overflow) yield this.#overflow;
    yield* this.#series.values();
  }

  /** The series without labels. */
  only(): Series {
    return (this.#only ??= this.#made([]));
  }

  /**
   * Returns the series with these labels, or the overflow series if there is no room for another one.
   *
   * @throws {TypeError | RangeError} the labels don't match the metric's `labelNames`.
   */
  of(labels: Readonly<Record<string, unknown>>): Series {
    const { labelNames } = this.#settings;
    if (labelNames.length === 0) {
      labelValues(labelNames, labels);
      return this.only();
    }
    const key = quickKey(labelNames, labels);
    return (
      (key === undefined ? undefined : this.#series.get(key)) ??
      this.#found(labels) ??
      (this.#overflow ??= this.#made(labelNames.map(() => overflowValue)))
    );
  }

  /** The id of labels, whether their series is kept or not. */
  idOf(labels: Readonly<Record<string, unknown>>): string {
    const { labelNames } = this.#settings;
    return seriesId(this.#metric, labelNames, labelValues(labelNames, labels));
  }

  /** The series of labels, in full check; undefined if there is no room for another. */
  #found(labels: Readonly<Record<string, unknown>>): Series | undefined {
    const { labelNames, maxSeries } = this.#settings;
    const values = labelValues(labelNames, labels);
    const key = values.reduce((before, value) => extended(before, value, values.length), "");
    const known = this.#series.get(key);
    if (known) return known;
    if (this.#series.size >= maxSeries) this.#dropIdle();
    if (this.#series.size >= maxSeries) {
      if (!this.#overflow) this.#onOverflow();
      return undefined;
    }
    const series = this.#made(values);
    this.#series.set(key, series);
    return series;
  }

  #made(values: readonly string[]): Series {
    return this.#make(seriesId(this.#metric, this.#settings.labelNames, values));
  }

  #dropIdle(): void {
    const now = performance.now();
    if (now - this.#lookedAt < lookEveryMs) return;
    this.#lookedAt = now;
    for (const [key, { outbox }] of this.#series)
      if (now - outbox.usedAt > idleMs && !outbox.isListed) this.#series.delete(key);
  }

  /** The series of a call's arguments: by its labels, which come first where the metric has any. */
  from(args: readonly unknown[]): Series {
    return this.isLabelled ? this.of(args[0] as Record<string, unknown>) : this.only();
  }

  /** The index of a call's first argument behind the labels. */
  get first(): 0 | 1 {
    return this.isLabelled ? 1 : 0;
  }
}

/**
 * The cache key of a list of values: several values are written with their lengths, so that no two lists have the same key.
 */
const extended = (key: string, value: string, count: number): string =>
  count === 1 ? value : `${key}${String(value.length)}:${value}`;

/** The cache key of unchecked labels. Undefined if they cannot belong to a series, or need a full check. */
const quickKey = (names: readonly string[], labels: Readonly<Record<string, unknown>>): string | undefined => {
  if (typeof labels !== "object" || labels === null) return undefined;
  let count = 0;
  for (const _ in labels) count++;
  if (count !== names.length) return undefined;
  let key = "";
  for (const name of names) {
    const value = Object.hasOwn(labels, name) ? labels[name] : undefined;
    if (typeof value !== "string" && !Number.isFinite(value)) return undefined;
    key = extended(key, String(value), names.length);
  }
  return key;
};

/** A metric: its series, and the look-up of a call's series. */
export abstract class Metric<Names extends string, Series extends Kept> {
  readonly name: string;
  readonly help: string;
  /** @internal */
  readonly map: SeriesMap<Series>;
  protected readonly shared: Shared;
  /** @internal The key of the totals of a series. */
  protected abstract readonly totals: "total" | "dist";

  /** Made by this package only. */
  constructor(name: string, settings: MetricSettings, shared: Shared, make: (id: string) => Series) {
    this.name = name;
    this.help = settings.help;
    this.shared = shared;
    this.map = new SeriesMap(name, settings, make, () => shared.events.overflow(name, settings.maxSeries));
  }

  /** Returns one series, so that many calls look it up once. It still counts after the metric has dropped it as idle. */
  series(labels: Labels<Names>): Series {
    return this.map.of(labels);
  }

  /** @internal Shows the metric in an exposition. */
  abstract family(scope: ExpositionScope, format: ExpositionFormat): Promise<Family>;

  /** @internal Takes series whose data is gone off the list. Resolves with their number. */
  clean(): Promise<number> {
    return this.shared.index.clean(this.name, this.totals);
  }

  /**
   * @internal What an exposition shows of each series: what was confirmed of this object, or what is stored. Without labels
   * there is one series, also before its first amount.
   */
  protected async shown<Shown>(
    scope: ExpositionScope,
    localOf: (series: Series) => Shown,
    storedOf: (hash: ReadonlyMap<string, string>) => Shown,
  ): Promise<(readonly [labels: SeriesLabels, shown: Shown])[]> {
    const { map, name } = this;
    if (scope === "local") {
      if (!map.isLabelled) map.only();
      return [...map.all()].map((series) => [labelsOf(series.id), localOf(series)]);
    }
    const totals = await this.shared.index.totals(name, map.isLabelled, this.totals);
    return totals.flatMap(([id, hash]) =>
      hash.size > 0 || !map.isLabelled ? [[labelsOf(id), storedOf(hash)] as const] : [],
    );
  }

  /** Calls a method of the series named by the labels in `args` with the other arguments; wrong labels reject. */
  protected async call<Result>(args: readonly unknown[], method: MethodOf<Series>): Promise<Result> {
    const series = this.map.from(args) as Readonly<Record<MethodOf<Series>, (...rest: unknown[]) => Promise<Result>>>;
    return await series[method](...args.slice(this.map.first));
  }
}

type MethodOf<Series> = keyof {
  [Name in keyof Series as Series[Name] extends (...rest: never[]) => Promise<unknown> ? Name : never]: 0;
};
