import { setImmediate as nextTurn } from "node:timers/promises";
import type { RedisArgument } from "@kit/core";
import { newToken } from "@kit/core/toolkit";
import { GeoIpImportError } from "./errors.js";
import type { Part } from "./keys.js";
import { encodeBlock, encodePageIndex, encodePage, fieldsPerShard, recordsPerPage } from "./pages.js";
import type { NamesByLocale, Place, StoredNames, StoredPlace } from "./place.js";
import { type Overlap, RangeFolder } from "./ranges.js";
import type { ActivateOptions, GeoIpCommands, Manifest } from "./commands.js";

/** Entries of one block of places, and of names: a reader fetches one block at a cache miss. */
export const entriesPerBlock: Readonly<Record<"places" | "names", number>> = { places: 32, names: 16 };
/** Shards under way at a time: they bound the memory of an importer. */
const maxInFlight = 4;
/** An import yields to the event loop after this time. Otherwise replies to its own commands could miss their deadlines. */
const turnMs = 4;

/** Collects the fields of one part, and emits full shards. */
class ShardWriter {
  count = 0;
  #fields: RedisArgument[] = [];
  readonly #send: (shard: number, fields: RedisArgument[]) => void;

  constructor(send: (shard: number, fields: RedisArgument[]) => void) {
    this.#send = send;
  }

  add(bytes: Buffer): void {
    this.#fields.push(this.count % fieldsPerShard, bytes);
    if (++this.count % fieldsPerShard === 0) this.flush();
  }

  flush(): void {
    if (this.#fields.length === 0) return;
    this.#send(Math.floor((this.count - 1) / fieldsPerShard), this.#fields);
    this.#fields = [];
  }
}

/** Collects records of one family into pages. */
class PageWriter {
  readonly starts: (number | bigint)[] = [];
  readonly #family: 4 | 6;
  readonly #shards: ShardWriter;
  #starts: (number | bigint)[] = [];
  #places: number[] = [];

  constructor(family: 4 | 6, shards: ShardWriter) {
    this.#family = family;
    this.#shards = shards;
  }

  add(first: number | bigint, place: number): void {
    this.#starts.push(first);
    this.#places.push(place);
    if (this.#starts.length === recordsPerPage) this.flush();
  }

  flush(): void {
    const [first] = this.#starts;
    if (first === undefined) return;
    this.starts.push(first);
    this.#shards.add(encodePage(this.#family, this.#starts, this.#places));
    this.#starts = [];
    this.#places = [];
  }
}

/** Collects entries into blocks, and gives each a number from 1. */
class BlockWriter {
  count = 0;
  readonly #shards: ShardWriter;
  readonly #size: number;
  #entries: string[] = [];

  constructor(shards: ShardWriter, size: number) {
    this.#shards = shards;
    this.#size = size;
  }

  add(entry: StoredPlace | StoredNames): number {
    this.#entries.push(JSON.stringify(entry));
    if (this.#entries.length === this.#size) this.flush();
    return ++this.count;
  }

  flush(): void {
    if (this.#entries.length === 0) return;
    const block = encodeBlock(this.#entries);
    if (!block)
      throw new GeoIpImportError(
        { file: "the source" },
        `${String(this.#entries.length)} consecutive places have more than 1 MiB of JSON`,
      );
    this.#shards.add(block);
    this.#entries = [];
  }
}

/** Settings of a build. */
interface BuildOptions extends ActivateOptions {
  readonly overlap: Overlap;
}

/** Builds one version of a database: packs the ranges of a source, and stages them while the source is read. */
export class VersionBuilder {
  readonly version: string = newToken().replaceAll("-", "").slice(0, 12);
  /** Every key that was, or may have been, written. */
  readonly stagedKeys: Set<string> = new Set();
  readonly #commands: GeoIpCommands;
  readonly #options: ActivateOptions;
  readonly #signal: AbortSignal | undefined;
  readonly #shards: Readonly<Record<Part, ShardWriter>>;
  readonly #pages: { readonly v4: PageWriter; readonly v6: PageWriter };
  readonly #places: BlockWriter;
  readonly #names: BlockWriter;
  readonly #inFlight = new Set<Promise<void>>();
  #failure: { readonly error: unknown } | undefined;
  #turnAt: number = performance.now();
  readonly v4: RangeFolder<number>;
  readonly v6: RangeFolder<bigint>;

  constructor(commands: GeoIpCommands, options: BuildOptions, signal: AbortSignal | undefined) {
    this.#commands = commands;
    this.#options = options;
    this.#signal = signal;
    const shards = (part: Part): ShardWriter =>
      new ShardWriter((shard, fields) => this.#stage(commands.keys.shard(this.version, part, shard), fields));
    this.#shards = { v4: shards("v4"), v6: shards("v6"), places: shards("places"), names: shards("names") };
    this.#pages = { v4: new PageWriter(4, this.#shards.v4), v6: new PageWriter(6, this.#shards.v6) };
    this.#places = new BlockWriter(this.#shards.places, entriesPerBlock.places);
    this.#names = new BlockWriter(this.#shards.names, entriesPerBlock.names);
    const { overlap } = options;
    this.v4 = RangeFolder.v4((first, place) => this.#pages.v4.add(first, place), overlap);
    this.v6 = RangeFolder.v6((first, place) => this.#pages.v6.add(first, place), overlap);
  }

  /** The number of a new place. */
  place(place: Place, of: number, names?: NamesByLocale): number {
    return this.#places.add({ of, place, names });
  }

  /** The number of different places so far. */
  get places(): number {
    return this.#places.count;
  }

  get crossing(): number {
    return this.v4.crossing + this.v6.crossing;
  }

  /** The number of new names. */
  names(names: StoredNames): number {
    return this.#names.add(names);
  }

  /** Whether the event loop was kept for long enough. */
  get isDue(): boolean {
    return performance.now() - this.#turnAt > turnMs;
  }

  /** Resolves when few enough shards are under way to continue reading, and in another turn of the event loop if one is due. */
  async ready(): Promise<void> {
    if (this.isDue) {
      await nextTurn();
      this.#turnAt = performance.now();
    }
    this.#check();
    while (this.#inFlight.size >= maxInFlight) {
      await Promise.race(this.#inFlight);
      this.#check();
    }
  }

  /** Stages the rest, and finally the record of the version. */
  async finish(facts: Omit<Manifest, "layout" | "version" | "ranges" | "fields">): Promise<Manifest> {
    this.v4.finish();
    this.v6.finish();
    for (const writer of [this.#pages.v4, this.#pages.v6, this.#places, this.#names]) writer.flush();
    const { v4, v6, places, names } = this.#shards;
    for (const writer of [v4, v6, places, names]) writer.flush();
    while (this.#inFlight.size > 0) await Promise.race(this.#inFlight);
    this.#check();
    const manifest: Manifest = {
      layout: 1,
      version: this.version,
      ...facts,
      ranges: { v4: this.v4.count, v6: this.v6.count },
      fields: { v4: v4.count, v6: v6.count, places: places.count, names: names.count },
    };
    const indexes = [
      "fence4",
      encodePageIndex(4, this.#pages.v4.starts),
      "fence6",
      encodePageIndex(6, this.#pages.v6.starts),
    ];
    this.#stage(this.#commands.keys.version(this.version), ["manifest", JSON.stringify(manifest), ...indexes]);
    await Promise.all(this.#inFlight);
    this.#check();
    return manifest;
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    await Promise.all(this.#inFlight);
  }

  #stage(key: string, fields: readonly RedisArgument[]): void {
    this.stagedKeys.add(key);
    const sending = this.#commands
      .stage(key, fields, this.#options, this.#signal)
      .catch((error: unknown) => void (this.#failure ??= { error }))
      .finally(() => this.#inFlight.delete(sending));
    this.#inFlight.add(sending);
  }

  #check(): void {
    if (this.#failure) throw this.#failure.error;
    this.#signal?.throwIfAborted();
  }
}
