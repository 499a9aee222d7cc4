import { counterFamilyName, counterSample, type Family } from "../metric/exposition.js";
import type { Labelled } from "../metric/labels.js";
import { Metric } from "../metric/metric.js";
import type { ExpositionScope } from "../metric/options.js";
import type { ConfirmOptions, WriteOptions } from "../send/options.js";
import type { Shared } from "../send/shared.js";
import type { RangeOptions } from "../time/buckets.js";
import type { CounterSettings, DaysOptions } from "./options.js";
import { type CounterBucket, type CounterDay, CounterSeries } from "./series.js";

/**
 * A named total that only grows. It is kept for each set of label values, and for slices of time at several precisions.
 * Create it with `stats.counter()`. If the counter has labels, pass them as the first argument of each method.
 */
export class Counter<Names extends string = never> extends Metric<Names, CounterSeries> {
  /** @internal */
  protected override readonly totals = "total";
  /** @internal */
  readonly settings: CounterSettings;

  /** For this package only: use `stats.counter()`. */
  constructor(name: string, settings: CounterSettings, shared: Shared) {
    super(name, settings, shared, (id) => new CounterSeries(id, settings, shared));
    this.settings = settings;
  }

  /** Same as {@link CounterSeries.inc}. */
  inc(...args: Labelled<Names, [amount?: number, options?: WriteOptions]>): void {
    // The most frequent call: it creates no array.
    const { map } = this;
    const { first } = map;
    const given: readonly unknown[] = args;
    map.from(given).inc(given[first] as number | undefined, given[first + 1] as WriteOptions | undefined);
  }

  /** Same as {@link CounterSeries.add}. */
  add(...args: Labelled<Names, [amount?: number, options?: ConfirmOptions]>): Promise<number> {
    return this.call(args, "add");
  }

  /** Same as {@link CounterSeries.total}. */
  total(...args: Labelled<Names, []>): Promise<number> {
    return this.call(args, "total");
  }

  /** Same as {@link CounterSeries.read}. */
  read(...args: Labelled<Names, [range: RangeOptions]>): Promise<CounterBucket[]> {
    return this.call(args, "read");
  }

  /** Same as {@link CounterSeries.days}. */
  days(...args: Labelled<Names, [options: DaysOptions]>): Promise<CounterDay[]> {
    return this.call(args, "days");
  }

  /** @internal */
  override async family(scope: ExpositionScope): Promise<Family> {
    const totals = await this.shown(
      scope,
      ({ outbox }) => outbox.localTotal,
      (hash) => Number(hash.get("total") ?? 0),
    );
    const samples = totals.map(([labels, total]) => counterSample(labels, total));
    return { name: counterFamilyName(this.name), type: "counter", help: this.help, samples };
  }
}
