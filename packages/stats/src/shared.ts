import { type ClientContext, Deadline, inTime, type ObjectLife } from "@kit/core/toolkit";
import { ServerTime } from "./time/clock.js";
import type { StatsSettings } from "./options.js";
import * as scripts from "./scripts/index.js";
import { seriesKeys } from "./keys.js";
import { SeriesIndex } from "./metric/series-index.js";
import { Sender, type SenderEvents } from "./send/sender.js";

/** The most keys that one call reads. */
const maxKeys = 500;
/** The most totals that one call reads, or on a Cluster the most calls at once. */
const maxTotals = 64;

/** The most list members that one call reads: the server does nothing else meanwhile. */
const maxMembers = 20_000;

/** Waits a little longer, since a call that ends at the same deadline gives a better error. */
const graceMs = 50;

export interface SharedEvents extends SenderEvents {
  /** A metric has no room for another series. */
  readonly overflow: (metric: string, maxSeries: number) => void;
}

/** The parts that all metrics of one statistics object share. */
export class Shared {
  readonly life: ObjectLife;
  readonly context: ClientContext;
  readonly clock: ServerTime = new ServerTime();
  readonly sender: Sender;
  readonly index: SeriesIndex;
  readonly events: SharedEvents;
  readonly deadlineMs: number;

  constructor(life: ObjectLife, settings: StatsSettings, events: SharedEvents) {
    const { context } = life;
    this.life = life;
    this.context = context;
    this.events = events;
    this.deadlineMs = settings.deadlineMs;
    this.sender = new Sender(life, this.clock, settings, events);
    this.index = new SeriesIndex(context, settings.deadlineMs, settings.flushMs, events.outage);
  }

  get prefix(): string {
    return this.context.prefix;
  }

  /** The server's epoch milliseconds by the estimate; asks the server if there is none. */
  async serverNow(): Promise<number> {
    this.life.assertOpen();
    await this.sender.learnTime();
    return this.clock.now();
  }

  /**
   * Sends everything that waits now, and lists new series.
   *
   * @throws {KitError} not all of it was done by the deadline. It stays in the buffer.
   */
  async flush(): Promise<void> {
    const work = this.sender.flush().then(() => this.index.flush());
    const deadline = Deadline.in(this.deadlineMs + graceMs);
    await inTime(work, { deadline }, () => this.sender.notSent("the buffer"));
  }

  /**
   * Reads keys of one slot; many of them, or of up to `membersOfEach` members many, in several calls, so not at one instant. `now`
   * is that of the last.
   */
  async read<Value>(
    reading: scripts.Reading<Value>,
    keys: readonly string[],
    query: readonly (string | number)[],
    membersOfEach = 1,
  ): Promise<scripts.Readings<Value>> {
    this.life.assertOpen();
    const values: Value[] = [];
    let now = this.clock.now();
    const atOnce = Math.max(1, Math.min(maxKeys, Math.floor(maxMembers / membersOfEach)));
    for (let first = 0; first < keys.length; first += atOnce) {
      const sentAt = performance.now();
      const part = keys.slice(first, first + atOnce);
      const reply = await reading.run(this.context, { keys: part }, { query }, { deadlineMs: this.deadlineMs });
      this.clock.observe(sentAt, reply.now);
      now = reply.now;
      values.push(...reply.values);
    }
    return { now, values };
  }

  /** Reads hashes of one slot, as {@link read} does. */
  async hashes(keys: readonly string[]): Promise<scripts.Readings<ReadonlyMap<string, string>>> {
    return await this.read(scripts.hashes, keys, ["hash"]);
  }

  /** The stored totals of all time of each series of a metric, by its id. */
  async totals(
    metric: string,
    isLabelled: boolean,
    key: "total" | "dist",
  ): Promise<(readonly [id: string, hash: ReadonlyMap<string, string>])[]> {
    const ids = isLabelled ? (await this.index.of(metric)).map(([id]) => id) : [metric];
    return await this.#hashes(ids, key);
  }

  /** Removes series whose data is gone from the list of a metric; resolves with their number. */
  async clean(metric: string, key: "total" | "dist"): Promise<number> {
    const listed = await this.index.of(metric);
    const stored = await this.#hashes(
      listed.map(([id]) => id),
      key,
    );
    return await this.index.remove(
      metric,
      listed.filter((_, index) => stored[index]?.[1].size === 0),
    );
  }

  async #hashes(ids: readonly string[], key: "total" | "dist") {
    const isCluster = await this.context.isCluster(this.deadlineMs);
    const found: (readonly [string, ReadonlyMap<string, string>])[] = [];
    for (let first = 0; first < ids.length; first += maxTotals) {
      const part = ids.slice(first, first + maxTotals);
      const keys = part.map((id) => seriesKeys(this.prefix, id)[key]);
      // On a Cluster each series lies in a slot of its own.
      const calls = isCluster ? keys.map((one) => this.hashes([one])) : [this.hashes(keys)];
      const hashes = (await Promise.all(calls)).flatMap(({ values }) => values);
      part.forEach((id, index) => found.push([id, hashes[index] ?? new Map()]));
    }
    return found;
  }
}
