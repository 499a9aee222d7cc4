import { resolve, type RulesOf, text, traced } from "@kit/core/toolkit";
import {
  confirmRules,
  type ConfirmOptions,
  type DistributionSettings,
  slowestOptions,
  type SlowestOptions,
  writeRules,
  type WriteOptions,
} from "../options.js";
import * as scripts from "../scripts/index.js";
import type { Shared } from "../shared.js";
import { floorTo, isPartial, keyStarts, planRange, type RangeOptions } from "../time/buckets.js";
import { merged } from "./merged.js";
import { DistributionOutbox, largest, raise, type Recorded } from "./outbox.js";
import type { Summary } from "./summary.js";

/** One observation. */
export interface ObserveOptions extends WriteOptions {
  /**
   * What was measured (a path, an id), for the list of the slowest. Kept only if the distribution has `slowest`.
   *
   * @default none
   */
  readonly subject?: string | undefined;
}

export const observeRules = { ...writeRules, subject: text(500) } satisfies RulesOf<ObserveOptions>;

/** Settings of an observation whose caller waits. */
export type RecordOptions = ObserveOptions & ConfirmOptions;

export const recordRules = { ...observeRules, ...confirmRules } satisfies RulesOf<RecordOptions>;

/** The values of one window. */
export interface WindowSummary {
  readonly startAt: number;
  readonly summary: Summary;
  /** True if the window has not ended yet, or its start is no longer stored. */
  readonly isPartial: boolean;
}

const noOptions = {};

/** @throws {TypeError | RangeError} an option is invalid. */
export const observeOptions = (options: ObserveOptions): ObserveOptions => resolve("options", options, observeRules);

const valueOption = (value: unknown): number => {
  if (typeof value !== "number") throw new TypeError(`Expected \`value\` to be a number, got ${typeof value}`);
  if (!Number.isFinite(value)) throw new RangeError(`Expected \`value\` to be finite, got ${String(value)}`);
  return value;
};

/** One series of a distribution: the distribution with values for its labels. */
export class DistributionSeries {
  /** @internal */
  readonly outbox: DistributionOutbox;
  readonly #shared: Shared;
  readonly #settings: DistributionSettings;
  /** The fields of its spans. */
  readonly #facts = (): object => ({ series: this.id });

  /** For this package only: use the distribution's `series()`. */
  constructor(id: string, settings: DistributionSettings, shared: Shared) {
    this.outbox = new DistributionOutbox(id, settings, shared);
    this.#shared = shared;
    this.#settings = settings;
  }

  /** `name;label=value;…`, the name of the series in Redis. */
  get id(): string {
    return this.outbox.id;
  }

  /**
   * Counts a value and returns immediately. The value is sent within `flushMs`, merged with other values.
   *
   * A value that cannot be counted does not throw: the buffer is full, `at` is too far ahead, or the object is closed. The
   * event `dropped` reports it. A process that is killed loses the values that it has not sent.
   *
   * @throws {TypeError | RangeError} `value` is no finite number, or an option is invalid.
   */
  observe(value: number, options: ObserveOptions = noOptions): void {
    const valid = valueOption(value);
    const { at, subject } = options === noOptions ? (noOptions as ObserveOptions) : observeOptions(options);
    const { life, buffer } = this.#shared;
    const { outbox } = this;
    if (life.isClosed) return buffer.drop(this.id, "closed", 1);
    const partial = outbox.buffered.timeline.slot(at, buffer.admit);
    if (!partial) return buffer.drop(this.id, "full", 1);
    partial.add(valid, subject, this.#settings.slowest);
    outbox.buffered.units++;
    if (!outbox.isListed) buffer.list(outbox);
  }

  /**
   * Adds a value, and resolves with the new totals once the server has counted the value. The totals include values of other
   * callers in the same call.
   *
   * @throws {StatsTimeError} `at` is more than one minute ahead of the server; nothing was counted.
   * @throws {KitUnavailableError} no server answered in time; nothing was counted.
   * @throws {KitUnknownOutcomeError} the reply was lost. With effectively-once delivery, kit sends the value again in the
   *   background; call `record(value, { op: error.op })` to wait for it. The same call without `op` records a second value.
   * @throws {KitClosedError} after `close()`.
   */
  record(value: number, options: RecordOptions = noOptions): Promise<Recorded> {
    return traced("stats.record", this.#facts, () => {
      const valid = valueOption(value);
      const checked = resolve("options", options, recordRules);
      return this.#shared.sender.confirm(this.outbox, checked, (awaited, partial) => {
        partial.add(valid, checked.subject, this.#settings.slowest);
        awaited.units++;
      });
    });
  }

  /** Returns all values of a span of time as one summary. Throws the same errors as {@link windows}. */
  summary(range: RangeOptions): Promise<Summary> {
    return traced("stats.summary", this.#facts, async () => {
      const { parts } = await this.#parts(range);
      return merged(parts.map(([, hash]) => hash));
    });
  }

  /** Returns all values of the series that are still kept. */
  total(): Promise<Summary> {
    return traced("stats.total", this.#facts, async () => {
      const { values } = await this.#shared.commands.hashes([this.outbox.keys.dist]);
      return merged(values);
    });
  }

  /**
   * Returns the values of a span of time, one window after the other, including empty windows.
   *
   * @throws {TypeError | RangeError} an option is invalid.
   * @throws {KitUnavailableError} no server answered in time.
   */
  windows(range: RangeOptions): Promise<WindowSummary[]> {
    return traced("stats.windows", this.#facts, async () => {
      const { plan, parts, now } = await this.#parts(range);
      const found = new Map<number, ReadonlyMap<string, string>[]>();
      for (const [at, hash] of parts) {
        const startAt = floorTo(at, plan.stepMs);
        found.set(startAt, [...(found.get(startAt) ?? []), hash]);
      }
      const windows: WindowSummary[] = [];
      for (let startAt = plan.fromAt; startAt < plan.toAt; startAt += plan.stepMs)
        windows.push({
          startAt,
          summary: merged(found.get(startAt) ?? []),
          isPartial: isPartial(plan, startAt, startAt + plan.stepMs, now),
        });
      return windows;
    });
  }

  /**
   * Returns the subjects with the largest single values, in the windows that a span of time overlaps. Each window stores only
   * its `slowest` largest values.
   *
   * @throws {TypeError | RangeError} an option is invalid, or the distribution was created without `slowest`.
   */
  slowest(options: SlowestOptions): Promise<{ readonly subject: string; readonly value: number }[]> {
    return traced("stats.slowest", this.#facts, async () => {
      const { slowest, windows } = this.#settings;
      if (slowest === 0) throw new TypeError("This distribution has no list. Create it with `slowest`");
      const { limit, range } = slowestOptions(options, slowest);
      const guess = await this.#shared.commands.serverNow();
      const plan = planRange(windows, range, guess);
      const { stepMs } = plan.source;
      const keys = keyStarts(plan, stepMs, guess).map((at) => this.outbox.keys.slowest(stepMs, at));
      const { values: lists } = await this.#shared.commands.read(scripts.largest, keys, ["largest", limit], limit);
      const all = new Map<string, number>();
      for (const [subject, value] of lists.flat()) raise(all, subject, value);
      return largest(all, limit).map(([subject, value]) => ({ subject, value }));
    });
  }

  async #parts(range: RangeOptions) {
    const guess = await this.#shared.commands.serverNow();
    const plan = planRange(this.#settings.windows, range, guess);
    const { stepMs } = plan.source;
    const starts = keyStarts(plan, stepMs, guess).filter((at) => at >= plan.fromAt && at < plan.toAt);
    const { now, values } = await this.#shared.commands.hashes(starts.map((at) => this.outbox.keys.window(stepMs, at)));
    return { plan, now, parts: values.map((hash, index) => [starts[index] ?? 0, hash] as const) };
  }
}
