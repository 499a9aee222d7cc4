import { Flusher } from "@kit/core/batching";
import { asKitError, type Deadline, type OutageReporter } from "@kit/core/toolkit";
import { type Commands, partsOf } from "../store/commands.js";
import * as scripts from "../store/scripts/index.js";
import { indexKey, seriesKeys } from "../store/keys.js";

/** How often a series that is still counted is listed again. */
const relistMs = 600_000;
/** The most series listed of one metric; those counted longest ago are dropped first. */
const maxListed = 20_000;
const maxPerCall = 1_000;
const maxRemembered = 100_000;
/** The maximum number of totals that one call reads. On a Cluster, the maximum number of concurrent calls. */
const maxTotals = 64;

type StoredHash = ReadonlyMap<string, string>;

/**
 * The list of each metric's labeled series, by when they were last counted, for a shared exposition. A list is in the slot of
 * its metric, is bounded, and expires with the totals. Only expositions and `clean()` read it.
 */
export class SeriesIndex {
  readonly #commands: Commands;
  readonly #outage: OutageReporter;
  readonly #flusher: Flusher;
  /** When this process last listed a series, on the local monotonic clock. */
  readonly #listedAt = new Map<string, number>();
  readonly #pending = new Map<string, { keepMs: number; readonly ids: Set<string> }>();
  #isSending = false;

  constructor(commands: Commands, flushMs: number, outage: OutageReporter) {
    this.#commands = commands;
    this.#outage = outage;
    this.#flusher = new Flusher({
      flush: () => this.#send(),
      everyMs: flushMs,
      onError: (reason) => outage.failed("listing", asKitError(reason, "Listing of series")),
    });
  }

  /** To be called when the server has counted a series. `isNew`: it had no earlier data, so it may not be listed. */
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

  /** The stored totals of all time of each series of a metric, by its id. */
  async totals(
    metric: string,
    isLabelled: boolean,
    key: "total" | "dist",
  ): Promise<(readonly [id: string, hash: StoredHash])[]> {
    const ids = isLabelled ? (await this.#listed(metric)).map(([id]) => id) : [metric];
    const hashes = await this.#hashes(ids, key);
    return ids.map((id, index) => [id, hashes[index] ?? new Map()]);
  }

  /** Removes series whose data is gone from the list of a metric, unless they were listed since; resolves with their number. */
  async clean(metric: string, key: "total" | "dist"): Promise<number> {
    const listed = await this.#listed(metric);
    const rows = listed.map(([series, foundAt]) => ({ series, foundAt }));
    const hashes = await this.#hashes(
      rows.map(({ series }) => series),
      key,
    );
    const gone = rows.filter((_, index) => hashes[index]?.size === 0);
    return await this.#write(metric, 0, gone);
  }

  /** The series of a metric, with the score of each: when it was last listed. */
  async #listed(metric: string): Promise<(readonly [id: string, score: number])[]> {
    const index = indexKey(this.#commands.prefix, metric);
    const { values } = await this.#commands.read(scripts.largest, [index], ["largest", 0]);
    return values.flat().toSorted(([a], [b]) => (a < b ? -1 : 1));
  }

  async #hashes(ids: readonly string[], key: "total" | "dist"): Promise<StoredHash[]> {
    // On a Cluster each series has its own slot.
    const perCall = (await this.#commands.isCluster()) ? 1 : maxTotals;
    const found: StoredHash[] = [];
    for (const part of partsOf(ids, maxTotals)) {
      const keys = part.map((id) => seriesKeys(this.#commands.prefix, id)[key]);
      const calls = partsOf(keys, perCall).map((some) => this.#commands.hashes(some));
      found.push(...(await Promise.all(calls)).flatMap(({ values }) => values));
    }
    return found;
  }

  /** Series that are being sent are not listed yet. */
  get #hasWork(): boolean {
    return this.#pending.size > 0 || this.#isSending;
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
      metrics.map(([metric, { keepMs, ids }]) => {
        const rows = [...ids].map((series) => ({ series, foundAt: "" }));
        return this.#write(metric, keepMs, rows);
      }),
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

  /** Lists series of a metric, or those with `foundAt` no longer; resolves with how many were removed. */
  async #write(
    metric: string,
    keepMs: number,
    rows: readonly { readonly series: string; readonly foundAt: number | string }[],
  ): Promise<number> {
    const index = indexKey(this.#commands.prefix, metric);
    let removed = 0;
    for (const listed of partsOf(rows, maxPerCall))
      removed += await this.#commands.list(index, { keepMs, maxSeries: maxListed, listed });
    return removed;
  }
}
