import { Series } from "../metric/series.js";
import { optionsOf } from "../send/options.js";
import type { Shared } from "../send/shared.js";
import * as scripts from "../store/scripts/index.js";
import { floorTo, isPartial, keyStarts, type RangeOptions } from "../time/buckets.js";
import { merged } from "./merged.js";
import {
  type DistributionSettings,
  observeOptions,
  type ObserveOptions,
  type RecordOptions,
  recordRules,
  slowestOptions,
  type SlowestOptions,
} from "./options.js";
import { DistributionOutbox, largest, raise, type Recorded, type WindowPart } from "./outbox.js";
import type { Summary } from "./summary.js";

/** The values of one window. */
export interface WindowSummary {
  readonly startAt: number;
  readonly summary: Summary;
  /** True if the window has not ended yet, or its start is no longer stored. */
  readonly isPartial: boolean;
}

const noOptions = {};

const valueOption = (value: unknown): number => {
  if (typeof value !== "number") throw new TypeError(`Expected \`value\` to be a number, got ${typeof value}`);
  if (!Number.isFinite(value)) throw new RangeError(`Expected \`value\` to be finite, got ${String(value)}`);
  return value;
};

/** One series of a distribution: the distribution with values for its labels. */
export class DistributionSeries extends Series<WindowPart, Recorded, DistributionOutbox> {
  readonly #settings: DistributionSettings;

  /** For this package only: use the distribution's `series()`. */
  constructor(id: string, settings: DistributionSettings, shared: Shared) {
    super(new DistributionOutbox(id, settings, shared), shared);
    this.#settings = settings;
  }

  /**
   * Counts a value and returns immediately. The value is sent within `flushMs`, merged with other values.
   *
   * If the buffer is full, `at` is too far ahead, or the object is closed, kit drops the value. The event `dropped` reports
   * it, and `observe` does not throw. A killed process loses the values that it has not sent.
   *
   * @throws {TypeError | RangeError} `value` is no finite number, or an option is invalid.
   */
  observe(value: number, options: ObserveOptions = noOptions): void {
    const valid = valueOption(value);
    const { at, subject } = options === noOptions ? (noOptions as ObserveOptions) : observeOptions(options);
    this.slot(at, 1)?.add(valid, subject, this.#settings.slowest);
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
    return this.traced("record", () => {
      const valid = valueOption(value);
      const checked = optionsOf(options, recordRules);
      return this.shared.sender.confirm(this.outbox, checked, (awaited, partial) => {
        partial.add(valid, checked.subject, this.#settings.slowest);
        awaited.units++;
      });
    });
  }

  /** Returns all values of a span of time as one summary. Throws the same errors as {@link windows}. */
  summary(range: RangeOptions): Promise<Summary> {
    return this.traced("summary", async () => {
      const { hashes } = await this.stored(await this.planOf(range), this.outbox.keys.window);
      return merged(hashes.map(([, hash]) => hash));
    });
  }

  /** Returns all values of the series that are still kept. */
  total(): Promise<Summary> {
    return this.traced("total", async () => {
      const { values } = await this.shared.commands.hashes([this.outbox.keys.dist]);
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
    return this.traced("windows", async () => {
      const plan = await this.planOf(range);
      const { hashes, now } = await this.stored(plan, this.outbox.keys.window);
      const found = new Map<number, ReadonlyMap<string, string>[]>();
      for (const [at, hash] of hashes) {
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
    return this.traced("slowest", async () => {
      const { slowest } = this.#settings;
      if (slowest === 0) throw new TypeError("This distribution has no list. Create it with `slowest`");
      const { limit, range } = slowestOptions(options, slowest);
      const plan = await this.planOf(range);
      const { stepMs } = plan.source;
      const keys = keyStarts(plan, stepMs, plan.guess).map((at) => this.outbox.keys.slowest(stepMs, at));
      const { values: lists } = await this.shared.commands.read(scripts.largest, keys, ["largest", limit], limit);
      const all = new Map<string, number>();
      for (const [subject, value] of lists.flat()) raise(all, subject, value);
      return largest(all, limit).map(([subject, value]) => ({ subject, value }));
    });
  }
}
