import type { ClientContext } from "@kit/core/toolkit";
import {
  type BullJob,
  type BullLook,
  type BullScheduler,
  bullJobs,
  bullScheduler,
  type Entry,
  type Holder,
  hold,
  holders,
  type Item,
  type Kind,
  look,
  page,
  release,
} from "./scripts/index.js";

/** The parts of a job besides its hash. */
const jobParts = ["dependencies", "processed", "failed", "unsuccessful"];

/** A job as BullMQ has stored it, with the holder of its deduplication key. */
export interface StoredBullJob extends BullJob {
  readonly id: string;
  readonly holder: Holder | undefined;
}

/** The keys of a BullMQ queue, and the scripts that run on them. */
export class BullQueue {
  readonly #context: ClientContext;
  readonly #base: string;
  readonly #keys;

  constructor(context: ClientContext, prefix: string, name: string) {
    this.#context = context;
    this.#base = `${prefix}:${name}:`;
    const key = (part: string): string => this.#base + part;
    this.#keys = {
      ...{ wait: key("wait"), paused: key("paused"), prioritized: key("prioritized"), delayed: key("delayed") },
      ...{ active: key("active"), failed: key("failed"), waitingChildren: key("waiting-children") },
      ...{ repeats: key("repeat"), meta: key("meta") },
      // BullMQ takes keys that begin with one of its own words for its own.
      state: key("meta:kit-adopting"),
    };
  }

  look(): Promise<BullLook> {
    return look.run(this.#context, this.#keys, {});
  }

  page(kind: Kind, start: number, count: number): Promise<readonly Entry[]> {
    const isList = kind === "wait" || kind === "paused";
    return page.run(this.#context, { listed: this.#listed(kind) }, { kind: isList ? "list" : "zset", start, count });
  }

  /** Reads jobs; undefined for those that BullMQ has no data of. `isWhole`: with their data. */
  async jobs(ids: readonly string[], isWhole: boolean): Promise<readonly (StoredBullJob | undefined)[]> {
    const parts = ids.flatMap((id) => [this.#base + id, ...jobParts.map((part) => `${this.#base}${id}:${part}`)]);
    const found = await bullJobs.run(
      this.#context,
      { repeats: this.#keys.repeats, parts },
      { isWhole: isWhole ? "1" : "0" },
    );
    const texts = [...new Set(found.flatMap((job) => (job && job.deduplication !== "" ? [job.deduplication] : [])))];
    const pairs = texts.flatMap((text) => [`${this.#base}de:${text}`, `${this.#base}dn:${text}`]);
    const held = pairs.length === 0 ? [] : await holders.run(this.#context, { pairs }, {});
    const byText = new Map(texts.map((text, index) => [text, held[index]]));
    return found.map((job, index) => job && { ...job, id: ids[index] ?? "", holder: byText.get(job.deduplication) });
  }

  scheduler(id: string): Promise<BullScheduler> {
    return bullScheduler.run(this.#context, { scheduler: this.#scheduler(id) }, {});
  }

  /** Takes what is still there of the wanted entries out of the queue. */
  hold(
    slice: { readonly token: string; readonly target: string; readonly number: number },
    kind: Kind,
    start: number,
    wanted: readonly Entry[],
  ): Promise<readonly Item[]> {
    const keys = { state: this.#keys.state, listed: this.#listed(kind) };
    return hold.run(this.#context, keys, { ...slice, kind, start, wanted });
  }

  /** Ends a slice: deletes its jobs and job schedulers, apart from those that go back. */
  release(
    { token, number }: { readonly token: string; readonly number: number },
    items: readonly Item[],
    jobs: readonly (StoredBullJob | undefined)[],
    back: ReadonlySet<Item>,
  ): Promise<boolean> {
    const gone = items.flatMap((item) => {
      if (back.has(item)) return [];
      if (item.kind === "repeat") return [this.#scheduler(item.id)];
      return ["", ":logs", ...jobParts.map((part) => `:${part}`)].map((part) => this.#base + item.id + part);
    });
    const backIds = new Set(Array.from(back, ({ id }) => id));
    const keyed = jobs.flatMap((job) => (job?.holder?.id === job?.id && job && !backIds.has(job.id) ? [job] : []));
    const keys = keyed.map(({ deduplication }) => `${this.#base}de:${deduplication}`);
    const places = items.flatMap((item, index) => (back.has(item) ? [index + 1] : []));
    return release.run(
      this.#context,
      { ...this.#keys, gone: [...keys, ...gone] },
      { token, number, back: places.join(" "), holders: keyed.map(({ id }) => id) },
    );
  }

  #listed(kind: Kind): string {
    return this.#keys[kind === "repeat" ? "repeats" : kind];
  }

  #scheduler(id: string): string {
    return `${this.#base}repeat:${id}`;
  }
}
