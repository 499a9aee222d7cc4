import { CounterOverflowError } from "../errors.js";
import { Series } from "../metric/series.js";
import { confirmRules, type ConfirmOptions, optionsOf, writeRules, type WriteOptions } from "../send/options.js";
import type { Shared } from "../send/shared.js";
import { isPartial, type Plan, planDays, type RangeOptions } from "../time/buckets.js";
import { type Day, dayMs, daysOf } from "../time/days.js";
import { amountOption, type CounterSettings, type DaysOptions, daysRules } from "./options.js";
import { CounterOutbox, type Tally } from "./outbox.js";

/** The amount of one slice of time. */
export interface CounterBucket {
  /** The start of the bucket, in epoch milliseconds of the server's clock. */
  readonly startAt: number;
  readonly value: number;
  /** True if the bucket has not ended yet, or its start is no longer stored: the value may be too low. */
  readonly isPartial: boolean;
}

/** The amount of a calendar day of a time zone. */
export interface CounterDay extends Day {
  readonly value: number;
  /** True if the day has not ended yet, or its start is no longer stored: the value may be too low. */
  readonly isPartial: boolean;
}

const noOptions = {};

/** One series of a counter: the counter with values for its labels. */
export class CounterSeries extends Series<Tally, number, CounterOutbox> {
  /** For this package only: use the counter's `series()`. */
  constructor(id: string, settings: CounterSettings, shared: Shared) {
    super(new CounterOutbox(id, settings, shared), shared);
  }

  /**
   * Adds to the counter and returns immediately. The amount is sent within `flushMs`, in a batch with other amounts.
   *
   * If the buffer is full, `at` is too far ahead, or the object is closed, kit drops the amount. The event `dropped` reports
   * it, and `inc` does not throw. A killed process loses the amounts that it has not sent.
   *
   * @throws {TypeError | RangeError} `amount` is not an integer from 0 to 2^53 − 1, or `at` is not an instant.
   */
  inc(amount = 1, options: WriteOptions = noOptions): void {
    const added = amount === 1 ? 1 : amountOption(amount);
    const at = options === noOptions ? undefined : optionsOf(options, writeRules).at;
    if (this.outbox.buffered.units + added > Number.MAX_SAFE_INTEGER)
      return this.shared.buffer.drop(this.id, "overflow", added);
    const tally = this.slot(at, added);
    if (tally) tally.amount += added;
  }

  /**
   * Adds to the counter, and resolves with the total once the server has counted the amount. Concurrent calls share one
   * batch, so the total includes their amounts.
   *
   * @throws {CounterOverflowError} the total would exceed 2^53 − 1; nothing was added.
   * @throws {StatsTimeError} `at` is more than one minute ahead of the server; nothing was added.
   * @throws {KitUnavailableError} no server answered in time; nothing was added.
   * @throws {KitUnknownOutcomeError} the reply was lost. With effectively-once delivery, kit sends the amount again in the
   *   background; call `add(amount, { op: error.op })` to wait for it. With other deliveries the error has no `op`. The same
   *   call without `op` adds the amount again.
   * @throws {KitClosedError} after `close()`.
   */
  add(amount = 1, options: ConfirmOptions = noOptions): Promise<number> {
    return this.traced("add", () => {
      const added = amountOption(amount);
      const checked = optionsOf(options, confirmRules);
      return this.shared.sender.confirm(this.outbox, checked, (awaited, tally) => {
        if (awaited.units + added > Number.MAX_SAFE_INTEGER) throw new CounterOverflowError(this.id);
        tally.amount += added;
        awaited.units += added;
      });
    });
  }

  /** Returns the sum of all amounts that the server has counted, until the total expires. An unknown series has 0. */
  total(): Promise<number> {
    return this.traced("total", async () => {
      const { values } = await this.shared.commands.hashes([this.outbox.keys.total]);
      return Number(values[0]?.get("total") ?? 0);
    });
  }

  /**
   * Reads the amounts of a span of time, one bucket after the other. Empty buckets have 0. Amounts that processes still
   * buffer are not included.
   *
   * @throws {TypeError | RangeError} an option is invalid.
   * @throws {KitUnavailableError} no server answered in time.
   *
   * @example
   * await views.read({ lastMs: 3_600_000, stepMs: 300_000 }); // twelve or thirteen buckets of five minutes
   */
  read(range: RangeOptions): Promise<CounterBucket[]> {
    return this.traced("read", async () => {
      const plan = await this.planOf(range);
      const { fromAt, toAt, stepMs } = plan;
      const values = Array.from({ length: Math.round((toAt - fromAt) / stepMs) }, () => 0);
      const now = await this.#sum(plan, (at, amount) => {
        values[Math.floor((at - fromAt) / stepMs)]! += amount;
      });
      return values.map((value, index) => {
        const startAt = fromAt + index * stepMs;
        return { startAt, value, isPartial: isPartial(plan, startAt, startAt + stepMs, now) };
      });
    });
  }

  /**
   * Reads the amounts of the last calendar days of a time zone, up to and including today. A day on which clocks change has
   * 23 or 25 hours. Each day must start and end with a stored bucket. The default step of 15 minutes works for all time
   * zones.
   *
   * @throws {TypeError | RangeError} an option is invalid, there is no such zone, or no step divides its days.
   * @throws {KitUnavailableError} no server answered in time.
   *
   * @example
   * await views.days({ timeZone: "Europe/Berlin", lastDays: 7 });
   */
  days(options: DaysOptions): Promise<CounterDay[]> {
    return this.traced("days", async () => {
      const { timeZone, lastDays } = optionsOf(options, daysRules);
      const guess = await this.shared.commands.serverNow();
      const days = daysOf(timeZone, lastDays, guess);
      const plan = { ...planDays(this.outbox.steps, days, guess), guess };
      const values = days.map(() => 0);
      const now = await this.#sum(plan, (at, amount) => {
        // In any time zone, a day starts less than two days from its number times 24 hours.
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
    plan: Pick<Plan, "source" | "fromAt" | "toAt"> & { readonly guess: number },
    add: (at: number, amount: number) => void,
  ): Promise<number> {
    const { now, hashes } = await this.stored(plan, this.outbox.keys.chunk);
    for (const [startAt, buckets] of hashes)
      for (const [bucket, amount] of buckets) {
        const at = startAt + Number(bucket) * plan.source.stepMs;
        if (at >= plan.fromAt && at < plan.toAt) add(at, Number(amount));
      }
    return now;
  }
}
