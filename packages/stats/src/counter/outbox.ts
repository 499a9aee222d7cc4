import type { RedisArgument } from "@kit/core";
import { SeriesOutbox } from "../metric/series.js";
import type { Shared } from "../send/shared.js";
import type { Operands } from "../store/commands.js";
import type { SeriesKeys } from "../store/keys.js";
import * as scripts from "../store/scripts/index.js";
import * as records from "../store/scripts/records.js";
import { chunkLength, floorTo, isKept, type Step, totalKeepMs } from "../time/buckets.js";
import type { CounterSettings } from "./options.js";

export interface Tally {
  amount: number;
}

const tallies = {
  make: (): Tally => ({ amount: 0 }),
  merge: (into: Tally, from: Tally): void => {
    into.amount += from.amount;
  },
};

/** The operands of count.lua for one batch. */
export const countOperands = (
  keys: SeriesKeys,
  precisions: readonly Step[],
  writer: string,
  total: number,
  amounts: readonly (readonly [at: number, amount: number])[],
  now: number,
): Operands => {
  const chunks = new Map<string, { readonly endsAt: number; readonly buckets: Map<number, number> }>();
  for (const [at, amount] of amounts) {
    if (amount === 0) continue;
    // Other buckets would expire immediately.
    for (const { stepMs, keepMs } of precisions.filter((step) => isKept(step, at, now))) {
      const spanMs = stepMs * chunkLength;
      const start = floorTo(at, spanMs);
      const endsAt = start + spanMs + keepMs;
      const key = keys.chunk(stepMs, start);
      let chunk = chunks.get(key);
      if (!chunk) chunks.set(key, (chunk = { endsAt, buckets: new Map() }));
      const bucket = Math.floor((at - start) / stepMs);
      chunk.buckets.set(bucket, (chunk.buckets.get(bucket) ?? 0) + amount);
    }
  }
  const plan: RedisArgument[] = [];
  records.countTotal(plan, { amount: total, keepMs: totalKeepMs(precisions, chunkLength) });
  for (const { endsAt, buckets } of chunks.values()) {
    records.countChunk(plan, { endsAt, buckets: buckets.size });
    for (const [bucket, added] of buckets) records.countBucket(plan, { bucket, added });
  }
  return { keys: [keys.total, keys.writer(writer), ...chunks.keys()], plan };
};

/** The amounts of one series that are not acknowledged. */
export class CounterOutbox extends SeriesOutbox<Tally, number> {
  /** The sum of the amounts that the server has confirmed. */
  localTotal = 0;

  constructor(id: string, { precisions, delivery }: CounterSettings, shared: Shared) {
    super(id, shared, { channel: scripts.count, delivery, steps: precisions, perKey: chunkLength, values: tallies });
  }

  protected override unitsOf({ amount }: Tally): number {
    return amount;
  }

  protected override planned(values: readonly (readonly [startAt: number, tally: Tally])[], total: number): Operands {
    const amounts = values.map(([at, { amount }]) => [at, amount] as const);
    return countOperands(this.keys, this.steps, this.writer, total, amounts, this.shared.commands.clock.now());
  }

  protected override confirmed(_: readonly Tally[], units: number, total: number): number {
    this.localTotal += units;
    return total;
  }

  override decode(reply: string): number {
    return Number(reply);
  }
}
