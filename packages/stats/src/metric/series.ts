import { traced } from "@kit/core/toolkit";
import { Aggregate, type Batch, type Delivery, Outbox } from "../send/outbox.js";
import type { Shared } from "../send/shared.js";
import type { Operands } from "../store/commands.js";
import { type SeriesKeys, seriesKeys } from "../store/keys.js";
import type { Channel } from "../store/scripts/index.js";
import { keyStarts, type Plan, planRange, type RangeOptions, type Step, totalKeepMs } from "../time/buckets.js";
import { type Mergeable, Timeline } from "../time/timeline.js";

/** How the amounts of a series are stored and sent. */
interface Storing<Value> {
  readonly channel: Channel;
  readonly delivery: Delivery;
  /** From fine to coarse. */
  readonly steps: readonly Step[];
  /** How many buckets of a step share a key. */
  readonly perKey: number;
  readonly values: Mergeable<Value>;
}

/** The amounts of one series that are not acknowledged. */
export abstract class SeriesOutbox<Value, Result> extends Outbox<Aggregate<Value>, Result> {
  readonly keys: SeriesKeys;
  protected readonly shared: Shared;
  readonly steps: readonly Step[];
  readonly perKey: number;
  /** How long the totals live after the last new bucket. */
  protected readonly keepMs: number;

  constructor(id: string, shared: Shared, { channel, delivery, steps, perKey, values }: Storing<Value>) {
    const [finest] = steps as readonly [Step];
    const { prefix, clock } = shared.commands;
    const make = (): Aggregate<Value> => new Aggregate(new Timeline(finest.stepMs, clock, values));
    super(id, shared.buffer, { channel, delivery, make });
    this.keys = seriesKeys(prefix, id);
    this.shared = shared;
    this.steps = steps;
    this.perKey = perKey;
    this.keepMs = totalKeepMs(steps, perKey);
  }

  override operands(buffered: Aggregate<Value>, awaited: Aggregate<Value>): Operands {
    return this.planned(
      [...buffered.timeline.entries(), ...awaited.timeline.entries()],
      buffered.units + awaited.units,
    );
  }

  override counted({ buffered, awaited }: Batch<Aggregate<Value>, Result>, result: Result): void {
    const units = buffered.units + awaited.units;
    const all = this.confirmed([...buffered.timeline.values(), ...awaited.timeline.values()], units, result);
    this.shared.index.counted(this.id, this.keepMs, all === units);
  }

  /** The keys and records of values, which are given with the start of their bucket. Two can have the same start. */
  protected abstract planned(values: readonly (readonly [startAt: number, value: Value])[], units: number): Operands;

  /** Adds values to what the server has confirmed of this object. Returns how many units the series has in all. */
  protected abstract confirmed(values: readonly Value[], units: number, result: Result): number;
}

/** One series of a metric: the metric with values for its labels. */
export abstract class Series<Value, Result, Own extends SeriesOutbox<Value, Result>> {
  /** @internal */
  readonly outbox: Own;
  /** @internal */
  protected readonly shared: Shared;
  /** The fields of its spans. */
  readonly #facts = (): object => ({ series: this.id });

  constructor(outbox: Own, shared: Shared) {
    this.outbox = outbox;
    this.shared = shared;
  }

  /** `name;label=value;…`, the name of the series in Redis. */
  get id(): string {
    return this.outbox.id;
  }

  /** @internal */
  protected traced<T>(operation: string, run: () => Promise<T>): Promise<T> {
    return traced(`stats.${operation}`, this.#facts, run);
  }

  /** @internal The buffered value to which `units` are added; undefined if they are dropped. */
  protected slot(at: number | undefined, units: number): Value | undefined {
    const { outbox } = this;
    const { life, buffer } = this.shared;
    const { buffered } = outbox;
    const value = life.isClosed ? undefined : buffered.timeline.slot(at, buffer.admit);
    if (value === undefined) {
      buffer.drop(this.id, life.isClosed ? "closed" : "full", units);
      return undefined;
    }
    buffered.units += units;
    if (!outbox.isListed) buffer.list(outbox as unknown as Outbox);
    return value;
  }

  /** @internal Resolves a range against what is stored at about the time `guess`. */
  protected async planOf(range: RangeOptions): Promise<Plan & { readonly guess: number }> {
    const guess = await this.shared.commands.serverNow();
    return { ...planRange(this.outbox.steps, range, guess), guess };
  }

  /** @internal The stored hashes of a span, each with the start of its time; and the server's time. */
  protected async stored(
    { guess, ...plan }: Pick<Plan, "source" | "fromAt" | "toAt"> & { readonly guess: number },
    keyOf: (stepMs: number, startAt: number) => string,
  ): Promise<{ now: number; hashes: (readonly [startAt: number, hash: ReadonlyMap<string, string>])[] }> {
    const { stepMs } = plan.source;
    const starts = keyStarts(plan, stepMs * this.outbox.perKey, guess);
    const { now, values } = await this.shared.commands.hashes(starts.map((at) => keyOf(stepMs, at)));
    return { now, hashes: values.map((hash, index) => [starts[index] ?? 0, hash] as const) };
  }
}
