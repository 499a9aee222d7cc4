import { Flusher } from "@kit/core/batching";
import { asKitError, type ClientContext, type Deadline, type OutageReporter } from "@kit/core/toolkit";
import { indexKey } from "../keys.js";
import * as scripts from "../scripts/index.js";

/** How often a series that is still counted is listed again. */
const relistMs = 600_000;
/** The most series listed of one metric; those counted longest ago are dropped first. */
const maxListed = 20_000;
const maxPerCall = 1_000;
const maxRemembered = 100_000;

/**
 * Lists the labelled series of each metric by when they were last counted, for a shared exposition. Each metric's list has
 * its own slot, is bounded, and expires with the totals. Nothing else depends on it.
 */
export class SeriesIndex {
  readonly #context: ClientContext;
  readonly #deadlineMs: number;
  readonly #outage: OutageReporter;
  readonly #flusher: Flusher;
  /** When this process last listed a series, on the local monotonic clock. */
  readonly #listedAt = new Map<string, number>();
  readonly #pending = new Map<string, { keepMs: number; readonly ids: Set<string> }>();
  #isSending = false;

  constructor(context: ClientContext, deadlineMs: number, flushMs: number, outage: OutageReporter) {
    this.#context = context;
    this.#deadlineMs = deadlineMs;
    this.#outage = outage;
    this.#flusher = new Flusher({
      flush: () => this.#send(),
      everyMs: flushMs,
      onError: (reason) => outage.failed("listing", asKitError(reason, "Listing of series")),
    });
  }

  /** The server has counted a series. `isNew`: it had no earlier data, so it may no longer be listed. */
  counted(id: string, keepMs: number, isNew: boolean): void {
    const nameEnd = id.indexOf(";");
    // A metric without labels is its only series.
    if (nameEnd < 0) return;
    const now = performance.now();
    if (!isNew && now - (this.#listedAt.get(id) ?? -Infinity) < relistMs) return;
    if (this.#listedAt.size >= maxRemembered) this.#listedAt.clear();
    this.#listedAt.set(id, now);
    this.#add(id.slice(0, nameEnd), keepMs, [id]);
    this.#flusher.changed();
  }

  /** Sends the series to be listed. */
  async flush(): Promise<void> {
    if (this.#hasWork) await this.#flusher.now();
  }

  async close(deadline: Deadline): Promise<void> {
    if (this.#hasWork) await this.#flusher.close(deadline);
  }

  /** The series of a metric, with the score of each: when it was last listed. */
  async of(metric: string): Promise<(readonly [id: string, score: number])[]> {
    const key = indexKey(this.#context.prefix, metric);
    const { values } = await scripts.largest.run(this.#context, { keys: [key] }, { query: ["largest", 0] }, this.#call);
    const [listed = []] = values;
    return listed.toSorted(([a], [b]) => (a < b ? -1 : 1));
  }

  /** Removes series whose data is gone, unless they were listed since. Resolves with their number. */
  async remove(metric: string, gone: readonly (readonly [id: string, score: number])[]): Promise<number> {
    const index = indexKey(this.#context.prefix, metric);
    let removed = 0;
    for (let first = 0; first < gone.length; first += maxPerCall) {
      const part = gone.slice(first, first + maxPerCall);
      const listed = part.map(([series, foundAt]) => ({ series, foundAt }));
      const args = { keepMs: 0, maxSeries: maxListed, listed };
      removed += await scripts.index.run(this.#context, { index }, args, this.#call);
    }
    return removed;
  }

  /** Those that are on their way are not listed yet. */
  get #hasWork(): boolean {
    return this.#pending.size > 0 || this.#isSending;
  }

  get #call(): { readonly deadlineMs: number } {
    return { deadlineMs: this.#deadlineMs };
  }

  #add(metric: string, keepMs: number, ids: Iterable<string>): void {
    let pending = this.#pending.get(metric);
    if (!pending) this.#pending.set(metric, (pending = { keepMs, ids: new Set() }));
    pending.keepMs = keepMs;
    for (const id of ids) pending.ids.add(id);
  }

  async #send(): Promise<void> {
    const metrics = [...this.#pending];
    this.#pending.clear();
    this.#isSending = true;
    const outcomes = await Promise.allSettled(
      metrics.map(([metric, { keepMs, ids }]) => this.#list(metric, keepMs, ids)),
    );
    this.#isSending = false;
    outcomes.forEach((outcome, at) => {
      const [metric, { keepMs, ids }] = metrics[at] as (typeof metrics)[number];
      if (outcome.status === "rejected") this.#add(metric, keepMs, ids);
    });
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    if (failed) throw failed.reason;
    this.#outage.worked("listing");
  }

  async #list(metric: string, keepMs: number, ids: ReadonlySet<string>): Promise<void> {
    const index = indexKey(this.#context.prefix, metric);
    const all = [...ids];
    for (let first = 0; first < all.length; first += maxPerCall) {
      const listed = all.slice(first, first + maxPerCall).map((series) => ({ series, foundAt: "" }));
      await scripts.index.run(this.#context, { index }, { keepMs, maxSeries: maxListed, listed }, this.#call);
    }
  }
}
