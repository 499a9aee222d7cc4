import { labelValues, overflowValue, seriesId } from "./labels.js";
import type { MetricSettings } from "./options.js";
import type { Outbox } from "./outbox.js";

/** A series gives its place back when it was idle for this long, and is looked at so often at most. */
const idleMs = 600_000;
const lookEveryMs = 30_000;

interface Place<Series> {
  readonly series: Series;
  usedAt: number;
}

/** The series of one metric in this process: found by label values, at most so many at a time. */
export class SeriesMap<Series extends { readonly outbox: Outbox }> {
  readonly #metric: string;
  readonly #settings: MetricSettings;
  readonly #make: (id: string, values: readonly string[]) => Series;
  readonly #onOverflow: () => void;
  readonly #places = new Map<string, Place<Series>>();
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
    for (const { series } of this.#places.values()) yield series;
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
    const key = fastKey(labelNames, labels);
    let place = key === undefined ? undefined : this.#places.get(key);
    place ??= this.#slow(labels);
    if (!place) return (this.#overflow ??= this.#made(labelNames.map(() => overflowValue)));
    place.usedAt = performance.now();
    return place.series;
  }

  /** The id that labels have, whether their series has a place or not. */
  idOf(labels: Readonly<Record<string, unknown>>): string {
    const { labelNames } = this.#settings;
    return seriesId(this.#metric, labelNames, labelValues(labelNames, labels));
  }

  /** Undefined: no room. */
  #slow(labels: Readonly<Record<string, unknown>>): Place<Series> | undefined {
    const { labelNames, maxSeries } = this.#settings;
    const values = labelValues(labelNames, labels);
    const key = keyOf(values);
    const known = this.#places.get(key);
    if (known) return known;
    if (this.#places.size >= maxSeries) this.#dropIdle();
    if (this.#places.size >= maxSeries) {
      if (!this.#overflow) this.#onOverflow();
      return undefined;
    }
    const place = { series: this.#made(values), usedAt: 0 };
    this.#places.set(key, place);
    return place;
  }

  #made(values: readonly string[]): Series {
    return this.#make(seriesId(this.#metric, this.#settings.labelNames, values), values);
  }

  #dropIdle(): void {
    const now = performance.now();
    if (now - this.#lookedAt < lookEveryMs) return;
    this.#lookedAt = now;
    for (const [key, { series, usedAt }] of this.#places)
      if (now - usedAt > idleMs && !series.outbox.isListed) this.#places.delete(key);
  }
}

/** Where a map finds label values: with their lengths, so that no two lists are one text. */
const keyOf = (values: readonly string[]): string =>
  values.length === 1 ? (values[0] ?? "") : values.map((value) => `${String(value.length)}:${value}`).join("");

/** The same for labels that were not checked; undefined: they need a closer look. */
const fastKey = (names: readonly string[], labels: Readonly<Record<string, unknown>>): string | undefined => {
  if (typeof labels !== "object" || labels === null) return undefined;
  let count = 0;
  for (const name in labels) if (Object.hasOwn(labels, name)) count++;
  if (count !== names.length) return undefined;
  let key = "";
  for (const name of names) {
    const given = Object.hasOwn(labels, name) ? labels[name] : undefined;
    const value = typeof given === "number" && Number.isFinite(given) ? String(given) : given;
    if (typeof value !== "string") return undefined;
    key = names.length === 1 ? value : `${key}${String(value.length)}:${value}`;
  }
  return key;
};

/** Splits the arguments of a call: the series by its labels, if the metric has any, and the rest. */
export const seriesAndRest = <Series extends { readonly outbox: Outbox }, Rest extends readonly unknown[]>(
  map: SeriesMap<Series>,
  args: readonly unknown[],
): readonly [series: Series, rest: Rest] => {
  if (!map.isLabelled) return [map.only(), args as Rest];
  const [labels, ...rest] = args;
  return [map.of(labels as Record<string, unknown>), rest as unknown as Rest];
};
