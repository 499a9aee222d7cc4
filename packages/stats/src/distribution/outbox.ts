import type { RedisArgument } from "@kit/core";
import { SeriesOutbox } from "../metric/series.js";
import type { Shared } from "../send/shared.js";
import type { Operands } from "../store/commands.js";
import * as scripts from "../store/scripts/index.js";
import * as records from "../store/scripts/records.js";
import { floorTo, isKept } from "../time/buckets.js";
import { addMoments, addValue, type Moments, momentsOf, momentsPlan, noMoments } from "./moments.js";
import type { DistributionSettings } from "./options.js";
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
export class WindowPart {
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

/** The values of one series that are not acknowledged. */
export class DistributionOutbox extends SeriesOutbox<WindowPart, Recorded> {
  readonly #settings: DistributionSettings;
  /** The values that the server has confirmed. */
  readonly localMoments: Moments = noMoments();
  /** For each bound, how many of those values are at most the bound. */
  readonly localUpTo: number[];

  constructor(id: string, settings: DistributionSettings, shared: Shared) {
    const { delivery, bounds, windows, slowest } = settings;
    const divided = dividedBins(bounds);
    const values = {
      make: () => new WindowPart(divided),
      merge: (into: WindowPart, from: WindowPart) => into.absorb(from, slowest),
    };
    super(id, shared, { channel: scripts.merge, delivery, steps: windows, perKey: 1, values });
    this.#settings = settings;
    this.localUpTo = bounds.map(() => 0);
  }

  protected override unitsOf({ moments }: WindowPart): number {
    return moments.count;
  }

  protected override planned(parts: readonly (readonly [startAt: number, part: WindowPart])[]): Operands {
    const { maxBins, slowest } = this.#settings;
    const keys = [this.keys.dist, this.keys.writer(this.writer)];
    const plan: RedisArgument[] = [];
    records.mergeTotal(plan, { keepMs: this.keepMs, maxBins, slowest, partials: parts.length });
    for (const [at, part] of parts) this.#addPartial(plan, keys, at, part);
    return { keys, plan };
  }

  protected override confirmed(parts: readonly WindowPart[], _: number, { total }: Recorded): number {
    for (const { moments, sketch } of parts) {
      addMoments(this.localMoments, moments);
      sketch.upTo(this.#settings.bounds).forEach((count, index) => (this.localUpTo[index]! += count ?? 0));
    }
    return total.count;
  }

  override decode(reply: string): Recorded {
    const texts = reply.split(" ");
    const summary = (from: number): Summary => new Summary(momentsOf(texts.slice(from)));
    return { window: summary(0), total: summary(records.momentNames.length) };
  }

  #addPartial(plan: RedisArgument[], keys: string[], at: number, { moments, sketch, listed }: WindowPart): void {
    const { maxBins, slowest } = this.#settings;
    const now = this.shared.commands.clock.now();
    // Other windows would expire immediately.
    const windows = this.steps.filter((step) => isKept(step, at, now));
    const bins = sketch.fields(maxBins);
    const bounds = sketch.boundFields();
    records.mergePartial(plan, {
      windows: windows.length,
      bins: bins.length,
      bounds: bounds.length,
      subjects: listed?.size ?? 0,
    });
    plan.push(...momentsPlan(moments));
    for (const { stepMs, keepMs } of windows) {
      const start = floorTo(at, stepMs);
      plan.push(start + stepMs + keepMs);
      keys.push(this.keys.window(stepMs, start));
      if (slowest > 0) keys.push(this.keys.slowest(stepMs, start));
    }
    for (const [field, values] of [...bins, ...bounds]) records.mergeField(plan, { field, values });
    for (const [subject, value] of listed ?? []) records.mergeSubject(plan, { value, subject });
  }
}
