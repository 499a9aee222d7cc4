import { resolve, traced } from "@kit/core/toolkit";
import {
  chunkLength,
  floorTo,
  isPartial,
  keyStarts,
  maxAheadMs,
  type Plan,
  planDays,
  planRange,
  type RangeOptions,
  type Step,
} from "../time/buckets.js";
import { type Day, daysOf } from "../time/days.js";
import { CounterOverflowError } from "../errors.js";
import { type SeriesKeys, seriesKeys } from "../keys.js";
import { counterFamilyName, counterSample, type Family } from "../metric/exposition.js";
import { type Labelled, labelsOf } from "../metric/labels.js";
import { Metric } from "../metric/metric.js";
import {
  confirmRules,
  type ConfirmOptions,
  type CounterSettings,
  type DaysOptions,
  daysRules,
  type ExpositionScope,
  writeRules,
  type WriteOptions,
} from "../options.js";
import { Aggregate, type Batch, type Operands, Outbox } from "../send/outbox.js";
import * as scripts from "../scripts/index.js";
import type { Shared } from "../shared.js";
import { Timeline } from "../time/timeline.js";

/** The amount of one slice of time. */
export interface CounterBucket {
  /** First instant, epoch milliseconds by the server's clock. */
  readonly startAt: number;
  readonly value: number;
  /** The bucket has not ended yet, or its beginning is no longer kept: the value may be too low. */
  readonly isPartial: boolean;
}

/** The amount of a calendar day of a time zone. */
export interface CounterDay extends Day {
  readonly value: number;
  /** Like that of a {@link CounterBucket}. */
  readonly isPartial: boolean;
}

const noOptions = {};
const dayMs = 86_400_000;

export const amountOption = (amount: unknown): number => {
  if (typeof amount !== "number") throw new TypeError(`Expected \`amount\` to be a number, got ${typeof amount}`);
  if (!Number.isSafeInteger(amount) || amount < 0)
    throw new RangeError(`Expected \`amount\` to be an integer from 0 to 2^53 - 1, got ${String(amount)}`);
  return amount;
};

interface Tally {
  amount: number;
}

const tallies = {
  make: (): Tally => ({ amount: 0 }),
  merge: (into: Tally, from: Tally): void => {
    into.amount += from.amount;
  },
};

/** Amounts by bucket of the finest precision. */
const amounts = (stepMs: number, { clock }: Shared): Aggregate<Tally> =>
  new Aggregate(new Timeline(stepMs, clock, tallies));

/** The operands of count.lua for one batch. */
export const countOperands = (
  keys: SeriesKeys,
  precisions: readonly Step[],
  of: {
    readonly writer: string;
    readonly seq: number;
    readonly total: number;
    readonly amounts: ReadonlyMap<number, number>;
  },
  now: number,
): Operands => {
  const chunks = new Map<string, { readonly until: number; readonly buckets: Map<number, number> }>();
  for (const [at, amount] of of.amounts) {
    if (amount === 0) continue;
    for (const { stepMs, keepMs } of precisions) {
      const spanMs = stepMs * chunkLength;
      const start = floorTo(at, spanMs);
      const until = start + spanMs + keepMs;
      // It would expire at once.
      if (floorTo(at, stepMs) + stepMs + keepMs <= now) continue;
      const key = keys.chunk(stepMs, start);
      let chunk = chunks.get(key);
      if (!chunk) chunks.set(key, (chunk = { until, buckets: new Map() }));
      const bucket = Math.floor((at - start) / stepMs);
      chunk.buckets.set(bucket, (chunk.buckets.get(bucket) ?? 0) + amount);
    }
  }
  const plan: (string | number)[] = [of.seq, of.total, totalKeepMs(precisions), chunks.size];
  for (const { until, buckets } of chunks.values()) {
    plan.push(until, buckets.size);
    for (const [bucket, amount] of buckets) plan.push(bucket, amount);
  }
  return { keys: [keys.total, keys.writer(of.writer), ...chunks.keys()], plan: [plan.length, ...plan] };
};

/** A total outlives every bucket that it contains. */
export const totalKeepMs = (precisions: readonly Step[]): number =>
  Math.max(...precisions.map(({ stepMs, keepMs }) => keepMs + stepMs * chunkLength)) + maxAheadMs + dayMs;

class CounterOutbox extends Outbox<Aggregate<Tally>, number> {
  readonly keys: SeriesKeys;
  readonly #shared: Shared;
  readonly #precisions: readonly Step[];
  /** The part that the server has confirmed. */
  localTotal = 0;

  constructor(id: string, { precisions, delivery }: CounterSettings, shared: Shared) {
    const [finest] = precisions as [Step];
    super(id, shared.sender, { channel: scripts.count, delivery, make: () => amounts(finest.stepMs, shared) });
    this.#shared = shared;
    this.keys = seriesKeys(shared.prefix, id);
    this.#precisions = precisions;
  }

  protected override unitsOf({ amount }: Tally): number {
    return amount;
  }

  override operands(seq: number, buffered: Aggregate<Tally>, awaited: Aggregate<Tally>): Operands {
    const amounts = new Map<number, number>();
    for (const { timeline } of [buffered, awaited])
      for (const [start, { amount }] of timeline.entries()) amounts.set(start, (amounts.get(start) ?? 0) + amount);
    const of = { writer: this.writer, seq, total: buffered.units + awaited.units, amounts };
    return countOperands(this.keys, this.#precisions, of, this.#shared.clock.now());
  }

  override counted({ buffered, awaited }: Batch<Aggregate<Tally>, number>, total: number): void {
    const added = buffered.units + awaited.units;
    this.localTotal += added;
    this.#shared.index.counted(this.id, totalKeepMs(this.#precisions), total === added);
  }

  override decode(reply: string): number {
    return Number(reply);
  }
}

/** One series of a counter: the counter with values for its labels. */
export class CounterSeries {
  /** @internal */
  readonly outbox: CounterOutbox;
  readonly #shared: Shared;
  readonly #settings: CounterSettings;
  /** The fields of its spans. */
  readonly #facts = (): object => ({ series: this.id });

  /** Only this package calls it. */
  constructor(id: string, settings: CounterSettings, shared: Shared) {
    this.outbox = new CounterOutbox(id, settings, shared);
    this.#shared = shared;
    this.#settings = settings;
  }

  /** `name;label=value;…`, the name of the series in Redis. */
  get id(): string {
    return this.outbox.id;
  }

  /**
   * Adds to the counter, and returns at once: the amount is sent within `flushMs`, together with others.
   *
   * Nothing is thrown for amounts that cannot be counted: a full buffer, an instant too far ahead, or a closed object is
   * reported by the event `dropped`. A process that is killed loses what it had not sent.
   *
   * @throws {TypeError | RangeError} `amount` is no integer from 0 to 2^53 − 1, or `at` is no instant.
   */
  inc(amount = 1, options: WriteOptions = noOptions): void {
    const added = amount === 1 ? 1 : amountOption(amount);
    const at = options === noOptions ? undefined : resolve("options", options, writeRules).at;
    const { life, sender } = this.#shared;
    const { outbox } = this;
    const { buffered } = outbox;
    if (life.isClosed) return sender.drop(this.id, "closed", added);
    if (buffered.units + added > Number.MAX_SAFE_INTEGER) return sender.drop(this.id, "overflow", added);
    const tally = buffered.timeline.slot(at, sender.admit);
    if (!tally) return sender.drop(this.id, "full", added);
    tally.amount += added;
    buffered.units += added;
    if (!outbox.isListed) sender.list(outbox);
  }

  /**
   * Adds to the counter, and resolves with its total once the server has it. Amounts of other callers at the same time go
   * into the same call, and are in that total.
   *
   * @throws {CounterOverflowError} the total would pass 2^53 − 1; nothing was added.
   * @throws {StatsTimeError} `at` lies more than a minute ahead of the server; nothing was added.
   * @throws {KitUnavailableError} no server answered in time; nothing was added.
   * @throws {KitUnknownOutcomeError} the reply is lost. In effectively-once delivery the amount is sent again in the
   *   background, and `add(amount, { op: error.op })` waits for that; in the other deliveries `op` cannot be asked for.
   * @throws {KitClosedError} after `close()`.
   */
  add(amount = 1, options: ConfirmOptions = noOptions): Promise<number> {
    return traced("stats.add", this.#facts, () => {
      const added = amountOption(amount);
      const checked = resolve("options", options, confirmRules);
      return this.#shared.sender.confirm(this.outbox, checked, (awaited, tally) => {
        if (awaited.units + added > Number.MAX_SAFE_INTEGER) throw new CounterOverflowError(this.id);
        tally.amount += added;
        awaited.units += added;
      });
    });
  }

  /** The sum of all amounts that the server has counted and not yet expired; 0 for an unknown series. */
  total(): Promise<number> {
    return traced("stats.total", this.#facts, async () => {
      const { values } = await this.#shared.hashes([this.outbox.keys.total]);
      return Number(values[0]?.get("total") ?? 0);
    });
  }

  /**
   * The amounts over a span of time, bucket by bucket, empty ones as 0. Amounts that processes still buffer are not
   * included.
   *
   * @throws {TypeError | RangeError} an option is not what it should be.
   * @throws {KitUnavailableError} no server answered in time.
   *
   * @example
   * await views.read({ lastMs: 3_600_000, stepMs: 300_000 }); // twelve or thirteen buckets of five minutes
   */
  read(range: RangeOptions): Promise<CounterBucket[]> {
    return traced("stats.read", this.#facts, async () => {
      const { precisions } = this.#settings;
      const guess = await this.#shared.serverNow();
      const plan = planRange(precisions, range, guess);
      const { fromAt, toAt, stepMs } = plan;
      const values = Array.from({ length: Math.round((toAt - fromAt) / stepMs) }, () => 0);
      const now = await this.#sum(plan, guess, (at, amount) => {
        values[Math.floor((at - fromAt) / stepMs)]! += amount;
      });
      return values.map((value, index) => {
        const startAt = fromAt + index * stepMs;
        return { startAt, value, isPartial: isPartial(plan, startAt, startAt + stepMs, now) };
      });
    });
  }

  /**
   * The amounts of the last calendar days of a time zone, the last one being today. A day on which clocks change has 23 or
   * 25 hours. One of the stored steps must divide the days; the default of 15 minutes divides those of all zones.
   *
   * @throws {TypeError | RangeError} an option is not what it should be, there is no such zone, or no step divides its days.
   * @throws {KitUnavailableError} no server answered in time.
   *
   * @example
   * await views.days({ timeZone: "Europe/Berlin", lastDays: 7 });
   */
  days(options: DaysOptions): Promise<CounterDay[]> {
    return traced("stats.days", this.#facts, async () => {
      const { timeZone, lastDays } = resolve("options", options, daysRules);
      const guess = await this.#shared.serverNow();
      const days = daysOf(timeZone, lastDays, guess);
      const plan = planDays(this.#settings.precisions, days, guess);
      const values = days.map(() => 0);
      const now = await this.#sum(plan, guess, (at, amount) => {
        // Whatever the time zone, a day begins less than two days from the place that its number gives.
        const near = Math.max(0, Math.floor((at - plan.fromAt) / dayMs) - 2);
        values[days.findIndex(({ endAt }, index) => index >= near && at < endAt)]! += amount;
      });
      return days.map((day, index) => ({
        ...day,
        value: values[index] ?? 0,
        isPartial: isPartial(plan, day.startAt, day.endAt, now),
      }));
    });
  }

  /** Calls back with each stored amount of a span and the beginning of its bucket; resolves with the server's time. */
  async #sum(
    plan: Pick<Plan, "source" | "fromAt" | "toAt">,
    guess: number,
    add: (at: number, amount: number) => void,
  ): Promise<number> {
    const { stepMs } = plan.source;
    const starts = keyStarts(plan, stepMs * chunkLength, guess);
    const { now, values } = await this.#shared.hashes(starts.map((at) => this.outbox.keys.chunk(stepMs, at)));
    values.forEach((buckets, index) => {
      for (const [bucket, amount] of buckets) {
        const at = (starts[index] ?? 0) + Number(bucket) * stepMs;
        if (at >= plan.fromAt && at < plan.toAt) add(at, Number(amount));
      }
    });
    return now;
  }
}

/**
 * A named total that only grows, kept for every set of label values, and by time at several precisions. Made by
 * `stats.counter()`. Each method takes the labels first, if the counter has any.
 */
export class Counter<Names extends string = never> extends Metric<Names, CounterSeries> {
  /** @internal */
  readonly settings: CounterSettings;

  /** Only this package calls it. */
  constructor(name: string, settings: CounterSettings, shared: Shared) {
    super(name, settings, shared, (id) => new CounterSeries(id, settings, shared));
    this.settings = settings;
  }

  /** As {@link CounterSeries.inc}. */
  inc(...args: Labelled<Names, [amount?: number, options?: WriteOptions]>): void {
    // The most frequent call: it creates no array.
    const { map } = this;
    const { first } = map;
    const given: readonly unknown[] = args;
    map.from(given).inc(given[first] as number | undefined, given[first + 1] as WriteOptions | undefined);
  }

  /** As {@link CounterSeries.add}. */
  add(...args: Labelled<Names, [amount?: number, options?: ConfirmOptions]>): Promise<number> {
    return this.ask(args, "add");
  }

  /** As {@link CounterSeries.total}. */
  total(...args: Labelled<Names, []>): Promise<number> {
    return this.ask(args, "total");
  }

  /** As {@link CounterSeries.read}. */
  read(...args: Labelled<Names, [range: RangeOptions]>): Promise<CounterBucket[]> {
    return this.ask(args, "read");
  }

  /** As {@link CounterSeries.days}. */
  days(...args: Labelled<Names, [options: DaysOptions]>): Promise<CounterDay[]> {
    return this.ask(args, "days");
  }

  /** @internal For an exposition: totals of all processes, or what was confirmed of this object. */
  async family(scope: ExpositionScope): Promise<Family> {
    const { name, help, map } = this;
    // Without labels there is one series, and it begins at 0.
    if (!map.isLabelled) map.only();
    const totals =
      scope === "local"
        ? [...map.all()].map(({ id, outbox }) => [id, outbox.localTotal] as const)
        : (await this.shared.totals(name, map.isLabelled, "total")).flatMap(([id, hash]) =>
            hash.size > 0 || !map.isLabelled ? [[id, Number(hash.get("total") ?? 0)] as const] : [],
          );
    const samples = totals.map(([id, total]) => counterSample(labelsOf(id), total));
    return { name: counterFamilyName(name), type: "counter", help, samples };
  }
}
