import { seriesKeys, type SeriesKeys } from "../keys.js";
import type { CounterSettings } from "../options.js";
import * as scripts from "../scripts/index.js";
import { Aggregate, type Batch, type Operands, Outbox } from "../send/outbox.js";
import type { Shared } from "../shared.js";
import { chunkLength, floorTo, type Step, totalKeepMs } from "../time/buckets.js";
import { Timeline } from "../time/timeline.js";

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
const amounts = (stepMs: number, { commands }: Shared): Aggregate<Tally> =>
  new Aggregate(new Timeline(stepMs, commands.clock, tallies));

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
      // The bucket would expire at once.
      if (floorTo(at, stepMs) + stepMs + keepMs <= now) continue;
      const key = keys.chunk(stepMs, start);
      let chunk = chunks.get(key);
      if (!chunk) chunks.set(key, (chunk = { until, buckets: new Map() }));
      const bucket = Math.floor((at - start) / stepMs);
      chunk.buckets.set(bucket, (chunk.buckets.get(bucket) ?? 0) + amount);
    }
  }
  const plan: (string | number)[] = [of.seq, of.total, totalKeepMs(precisions, chunkLength), chunks.size];
  for (const { until, buckets } of chunks.values()) {
    plan.push(until, buckets.size);
    for (const [bucket, amount] of buckets) plan.push(bucket, amount);
  }
  return { keys: [keys.total, keys.writer(of.writer), ...chunks.keys()], plan: [plan.length, ...plan] };
};

/** The amounts of one series that are not acknowledged. */
export class CounterOutbox extends Outbox<Aggregate<Tally>, number> {
  readonly keys: SeriesKeys;
  readonly #shared: Shared;
  readonly #precisions: readonly Step[];
  /** The sum of the amounts that the server has confirmed. */
  localTotal = 0;

  constructor(id: string, { precisions, delivery }: CounterSettings, shared: Shared) {
    const [finest] = precisions as [Step];
    super(id, shared.buffer, { channel: scripts.count, delivery, make: () => amounts(finest.stepMs, shared) });
    this.#shared = shared;
    this.keys = seriesKeys(shared.commands.prefix, id);
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
    return countOperands(this.keys, this.#precisions, of, this.#shared.commands.clock.now());
  }

  override counted({ buffered, awaited }: Batch<Aggregate<Tally>, number>, total: number): void {
    const added = buffered.units + awaited.units;
    this.localTotal += added;
    this.#shared.index.counted(this.id, totalKeepMs(this.#precisions, chunkLength), total === added);
  }

  override decode(reply: string): number {
    return Number(reply);
  }
}
