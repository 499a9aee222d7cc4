import { type SeriesKeys, seriesKeys } from "../keys.js";
import type { DistributionSettings } from "../options.js";
import * as scripts from "../scripts/index.js";
import { Aggregate, type Batch, type Operands, Outbox } from "../send/outbox.js";
import type { Shared } from "../shared.js";
import { floorTo, type Step, totalKeepMs } from "../time/buckets.js";
import { Timeline } from "../time/timeline.js";
import { addMoments, addValue, type Moments, momentsOf, momentsPlan, noMoments } from "./moments.js";
import { type DividedBins, dividedBins, Sketch } from "./sketch.js";
import { Summary } from "./summary.js";

/** The values including a new observation. */
export interface Recorded {
  /** The values of the widest window, without quantiles. */
  readonly window: Summary;
  /** All values that are still kept, without quantiles. */
  readonly total: Summary;
}

export const raise = (values: Map<string, number>, subject: string, value: number): void => {
  values.set(subject, Math.max(value, values.get(subject) ?? -Infinity));
};

export const largest = (values: ReadonlyMap<string, number>, count: number): [subject: string, value: number][] =>
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
  { commands }: Shared,
): Aggregate<WindowPart> => {
  const [finest] = windows as [Step];
  const make = (): WindowPart => new WindowPart(divided);
  const merge = (into: WindowPart, from: WindowPart): void => into.absorb(from, slowest);
  return new Aggregate(new Timeline(finest.stepMs, commands.clock, { make, merge }));
};

/** The values of one series that are not acknowledged. */
export class DistributionOutbox extends Outbox<Aggregate<WindowPart>, Recorded> {
  readonly keys: SeriesKeys;
  readonly #shared: Shared;
  readonly #settings: DistributionSettings;
  /** The values that the server has confirmed. */
  readonly localMoments: Moments = noMoments();
  /** For each bound, how many of those values are at most the bound. */
  readonly localUpTo: number[];

  constructor(id: string, settings: DistributionSettings, shared: Shared) {
    const { delivery, bounds } = settings;
    const divided = dividedBins(bounds);
    super(id, shared.buffer, { channel: scripts.merge, delivery, make: () => observations(settings, divided, shared) });
    this.#shared = shared;
    this.keys = seriesKeys(shared.commands.prefix, id);
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
    const plan = [seq, keys.length, totalKeepMs(this.#settings.windows, 1), maxBins, slowest, count, ...partials];
    return { keys, plan: [plan.length, ...plan] };
  }

  override counted({ buffered, awaited }: Batch<Aggregate<WindowPart>, Recorded>, { total }: Recorded): void {
    for (const { timeline } of [buffered, awaited])
      for (const { moments, sketch } of timeline.values()) {
        addMoments(this.localMoments, moments);
        sketch.upTo(this.#settings.bounds).forEach((count, index) => (this.localUpTo[index]! += count ?? 0));
      }
    this.#shared.index.counted(
      this.id,
      totalKeepMs(this.#settings.windows, 1),
      total.count === buffered.units + awaited.units,
    );
  }

  override decode(reply: string): Recorded {
    const numbers = reply.split(" ");
    const summary = (first: number): Summary =>
      new Summary(momentsOf((_, index) => numbers[first + index]) ?? noMoments());
    return { window: summary(0), total: summary(8) };
  }

  #partialPlan(at: number, { moments, sketch, listed }: WindowPart, keys: string[]): (string | number)[] {
    const { windows, maxBins, slowest } = this.#settings;
    const now = this.#shared.commands.clock.now();
    const untils: number[] = [];
    for (const { stepMs, keepMs } of windows) {
      const start = floorTo(at, stepMs);
      // The window would expire at once.
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
}
