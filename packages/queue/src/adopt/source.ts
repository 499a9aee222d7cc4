import { createHash } from "node:crypto";
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

/** The keys of a job in addition to its hash. */
const jobParts = ["dependencies", "processed", "failed", "unsuccessful"];

/** A job as BullMQ has stored it, with the holder of its deduplication key. */
export interface StoredBullJob extends BullJob {
  readonly id: string;
  readonly holder: Holder | undefined;
}

/** A job scheduler as BullMQ has stored it, with the id of its next job. Empty if it has none. */
export interface StoredScheduler extends BullScheduler {
  readonly next: string;
}

const md5 = (text: string): string => createHash("md5").update(text).digest("hex");

/**
 * The ids that the next job of a job scheduler can have. Before version 5.10 the id of a repeatable job was
 * `name:jobId:endDate:tz:pattern`, and the ids of its jobs contain a hash of it. Since version 5.35 the hash is of an id without `jobId`.
 */
const nextIds = ({ id, score }: Entry): string[] => {
  const [name = "", jobId = "", ...rest] = id.split(":");
  const hashes = rest.length < 3 ? [] : [jobId, ""].map((own) => md5(name + own + md5(id)));
  return [id, ...hashes].map((place) => `repeat:${place}:${score}`);
};

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
      // BullMQ treats keys that start with a BullMQ word, such as `meta`, as BullMQ keys.
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

  /** Reads jobs. The result has undefined for each job of which BullMQ has no data. `isWhole`: reads their data as well. */
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

  async scheduler(entry: Entry): Promise<StoredScheduler> {
    const ids = nextIds(entry);
    const keys = { scheduler: this.#scheduler(entry.id), nexts: ids.map((id) => this.#base + id) };
    const stored = await bullScheduler.run(this.#context, keys, {});
    return { ...stored, next: ids[stored.place - 1] ?? "" };
  }

  /** Takes the wanted entries that still exist out of the queue. */
  hold(
    slice: { readonly token: string; readonly target: string; readonly number: number },
    kind: Kind,
    start: number,
    wanted: readonly Entry[],
    next: string,
  ): Promise<readonly Item[]> {
    const { state, wait, paused, prioritized, delayed } = this.#keys;
    const lists = kind === "repeat" ? [wait, paused, prioritized, delayed] : [];
    const keys = { state, listed: this.#listed(kind), lists };
    return hold.run(this.#context, keys, { ...slice, kind, start, next, wanted });
  }

  /** Ends a slice: deletes its jobs and job schedulers, except those that go back. */
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
