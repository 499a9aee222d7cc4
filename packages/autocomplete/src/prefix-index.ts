import { KitError, type RedisLike } from "@kit/core";
import {
  type CloseOptions,
  holdErrors,
  newToken,
  ObjectLife,
  resolve,
  TypedEmitter,
  untilAborted,
  watchEviction,
} from "@kit/core/toolkit";
import { IndexMaintenance } from "./commands/maintenance.js";
import { IndexReader } from "./commands/reader.js";
import { Shards } from "./commands/shards.js";
import { type Change, IndexWriter, type Rebuild } from "./commands/writer.js";
import { checkEntry, checkId, type CheckedEntry } from "./entry.js";
import { DamagedIndexError } from "./errors.js";
import { indexKeys } from "./keys.js";
import { asTyped, isSpecific, suggestionOf, type Suggestions } from "./matching.js";
import {
  callRules,
  type CallOptions,
  type ChangeOptions,
  resolveChange,
  type Entry,
  type IndexRules,
  type IndexSettings,
  indexSettings,
  mostItems,
  type PrefixIndexOptions,
  type PutManyOptions,
  type RebuildOptions,
  putManyRules,
  rebuildRules,
  type SessionOptions,
  resolveSession,
  type SuggestOptions,
  resolveSuggest,
  type TouchOptions,
  resolveTouch,
  type WordOrder,
} from "./options.js";
import { SuggestSession } from "./session.js";

/** The rules of an index, in the form of its options. */
export type StoredRules = {
  readonly [Rule in "order" | "match" | "rankedLength" | "empty" | "marks" | "locale"]-?: NonNullable<
    PrefixIndexOptions[Rule]
  >;
} & {
  /** The version of `fold()` with which the index was written. */
  readonly foldVersion: string;
};

/** Events of an index. */
export interface PrefixIndexEvents {
  /**
   * The stored rules differ from this object's rules: the object was created with other options, or runs on another version of Unicode.
   * The object uses the stored rules until a `rebuild()`. Emitted once for each difference.
   */
  readonly mismatch: readonly [event: { configured: StoredRules; stored: StoredRules }];
  /**
   * The server can evict keys when its memory is full. With an `allkeys-…` policy it can evict any key, so names or the whole index can
   * disappear. With a `volatile-…` policy it can evict only data of a rebuild in progress. Emitted once for each policy. If the event
   * has a listener, kit reads the policy in the background, and again after a lost connection. Nothing is emitted if INFO is forbidden.
   */
  readonly evictable: readonly [event: { readonly policy: string }];
  /** An error without a waiting caller: a {@link DamagedIndexError}. */
  readonly error: readonly [error: KitError];
}

/** The size of an index. */
export interface PrefixIndexInspection {
  /** The stored rules; null if nothing was ever put. */
  readonly rules: StoredRules | null;
  /** The number of items. An item in several shards is counted in each of them. */
  readonly items: number;
  /** The number of indexed word starts. */
  readonly rows: number;
  /** The number of ranked prefixes. */
  readonly ranked: number;
  /** The number of items that a rebuild in progress has written; null if there is none. */
  readonly staged: number | null;
}

/** The result of a rebuild. */
export interface RebuildResult {
  /** The number of entries that the rebuild wrote. */
  readonly items: number;
}

type Source<T> = Iterable<T> | AsyncIterable<T>;

/** @throws {TypeError} it is neither. */
const assertIterable = (entries: unknown): void => {
  if (typeof entries === "object" && entries && (Symbol.asyncIterator in entries || Symbol.iterator in entries)) return;
  throw new TypeError("Expected `entries` to be an iterable of entries");
};

/** A batch occupies the server for a few tenths of a millisecond: a reader waits for no more than one batch. */
const batchRows = 64;
const batchItems = 32;
const batchBytes = 131_072;
/** A batch of a slow source is written even if it is not full: staged data expires ten minutes after the last batch. */
const batchMs = 1_000;

const storedRules = ({ order, match, rankedLength, empty, fold, foldVersion }: IndexRules): StoredRules => ({
  order,
  match,
  rankedLength,
  empty,
  ...fold,
  foldVersion,
});

/**
 * An index that finds names by how they start, in any language. Create it with {@link createPrefixIndex}.
 *
 * A read is one or two range commands, or one read-only script, in one key slot. It needs no lock, retry or temporary keys. A change is
 * one atomic step, visible to the next read. With several shards, it is one atomic step in each shard.
 *
 * The design follows the autocompletion of "Redis in Action" (J. L. Carlson, 2013, section 6.1), without its writes on every read and
 * its limit to the letters a to z.
 */
export class PrefixIndex<Payload = unknown> extends TypedEmitter<PrefixIndexEvents> implements AsyncDisposable {
  readonly name: string;
  readonly #settings: IndexSettings;
  readonly #life: ObjectLife;
  readonly #shards: Shards;
  readonly #reader: IndexReader;
  readonly #writer: IndexWriter;
  readonly #maintenance: IndexMaintenance;
  #isDamaged = false;

  /** For this package only: use {@link createPrefixIndex}. */
  constructor(redis: RedisLike, name: string, options: PrefixIndexOptions) {
    super();
    this.name = name;
    this.#settings = indexSettings(options);
    const { prefix, isolate, rules } = this.#settings;
    // Before anything is attached: the name may be invalid in a key.
    indexKeys(prefix, name);
    this.#life = new ObjectLife(redis, { prefix, isolate }, "The index");
    const { context } = this.#life;
    this.#shards = new Shards(name, context, this.#settings, {
      mismatch: (stored) => this.emit("mismatch", { configured: storedRules(rules), stored: storedRules(stored) }),
      used: watchEviction(
        context,
        () => this.hasListeners("evictable"),
        (policy) => this.emit("evictable", { policy }),
      ),
    });
    this.#reader = new IndexReader(this.#shards, () => this.#reportDamage());
    this.#writer = new IndexWriter(this.#shards, rules);
    this.#maintenance = new IndexMaintenance(this.#shards);
  }

  /**
   * Stores an entry. It replaces the entry with the same id; the old name is no longer found.
   *
   * @throws {InvalidEntryError} the id, the text or the payload cannot be stored; nothing was changed.
   * @throws {KitUnknownOutcomeError} the reply was lost; you can safely call again.
   * @throws {KitUnavailableError} no server answered in time; nothing was changed.
   * @throws {TypeError | RangeError} an argument has the wrong type, or a weight is out of range.
   *
   * @example
   * await guild.put({ id: "player:7", text: "Zoë", payload: { level: 12 } });
   */
  async put(entry: Entry<Payload>, options: ChangeOptions = {}): Promise<void> {
    const { op, signal } = resolveChange(options);
    const put = checkEntry(entry, this.#settings.maxPayloadBytes);
    this.#writer.check(put);
    await this.#run("put", () => this.#writer.write([{ put }], { op, signal }));
  }

  /**
   * Stores many entries, in small batches one after another, so that readers are not held up. Resolves with the number of stored
   * entries. If the call ends early, the earlier batches stay stored; you can safely call again.
   *
   * @throws {InvalidEntryError} an entry cannot be stored, and there is no `onInvalid`.
   * @throws `signal.reason` if `signal` aborts first; the error of the source; and every error of {@link put}.
   */
  async putMany(entries: Source<Entry<Payload>>, options: PutManyOptions<Payload> = {}): Promise<number> {
    const resolved = resolve("options", options, putManyRules) as PutManyOptions<Payload>;
    assertIterable(entries);
    return await this.#run("putMany", () => this.#writeAll(entries, resolved, undefined));
  }

  /** Removes an entry. Resolves with whether it existed. Throws the same errors as {@link put}. */
  async delete(id: string, options: ChangeOptions = {}): Promise<boolean> {
    const { op, signal } = resolveChange(options);
    const drop = checkId(id);
    return await this.#run("delete", async () => (await this.#writer.write([{ drop }], { op, signal })) > 0);
  }

  /**
   * Adds `by` (default 1) to an entry's weight. Resolves with whether the entry exists. A repeated `op` counts once within a minute.
   * During a rebuild, entries that the rebuild has not read yet get their weight from the rebuild's source.
   *
   * @throws {KitUnknownOutcomeError} the reply was lost, or some shards have the change and others do not. A repeated call with the
   *   error's `op` counts once. Without an `op` the same call would add again.
   * @throws {TypeError} the index is alphabetical; and every error of {@link put}.
   */
  async touch(id: string, options: TouchOptions = {}): Promise<boolean> {
    const { by, ...call } = resolveTouch(options);
    if (this.#settings.rules.order !== "weight") throw new TypeError('Expected an index made with `order: "weight"`');
    return await this.#run("touch", () => this.#writer.touch(checkId(id), by, call));
  }

  /**
   * Returns the entries with a word that starts with `query`, the best first. A space at the end of the query means that its last word
   * is complete. Punctuation and accents are ignored, but of the first 200 matches, those with the same accents and punctuation come
   * first. A query that no name can contain matches nothing: it has a control character, a lone surrogate, or more than 512 characters.
   *
   * @throws {KitUnavailableError} no server answered in time.
   * @throws `signal.reason` if `signal` aborts first.
   * @throws {TypeError | RangeError} an option is invalid, or not for this index.
   *
   * @example
   * const { items } = await guild.suggest("zo", { limit: 5 });
   */
  async suggest(query: string, options: SuggestOptions = {}): Promise<Suggestions<Payload>> {
    const { signal, ...resolved } = resolveSuggest(options);
    this.#assertHas(resolved.words);
    if (typeof query !== "string") throw new TypeError(`Expected \`query\` to be a string, got ${typeof query}`);
    // Accents and punctuation are compared here, among the most matches that one answer can have.
    const most = isSpecific(query, this.#settings.rules.fold) ? mostItems : resolved.limit;
    const found = await this.#run("suggest", () => this.#reader.suggest(query, resolved, most, signal));
    const items = asTyped(found.items, query, found.rules).slice(0, resolved.limit);
    return {
      items: items.map((item) => suggestionOf<Payload>(item, found.query, found.rules)),
      hasMore: found.hasMore || found.items.length > items.length,
      truncated: found.truncated,
    };
  }

  /** Returns a session for a search box on this index: the latest keystroke wins, and answers are local if possible. */
  session(options: SessionOptions = {}): SuggestSession<Payload> {
    const resolved = resolveSession(options);
    this.#assertHas(resolved.words);
    this.#life.assertOpen();
    return new SuggestSession(
      (query, limit, signal) =>
        this.#run("suggest", () => this.#reader.suggest(query, { ...resolved, limit }, limit, signal)),
      resolved,
    );
  }

  /**
   * Builds the index again from `entries`, with the rules of this object, and replaces the old index in one step. Until then readers
   * see the old index, and never a mixture. Concurrent changes are kept: they override `entries` with the same ids. An entry that is
   * not in `entries`, and was not changed meanwhile, is removed.
   *
   * The rebuild rejects a source without any valid entry unless you set `allowEmpty`.
   *
   * If a rebuild ends early, for example in a crash, the index is unchanged, and staged data expires within ten minutes. A later
   * rebuild, in any process, ends this one. With several shards, each shard is switched in one step, one after another.
   *
   * @throws {KitError} `KIT_AUTOCOMPLETE_EMPTY`: there was no entry; the index is unchanged.
   * @throws {RebuildLostError} another rebuild replaced it, the source produced nothing for ten minutes, or the server lost a part of
   *   it.
   * @throws every error of {@link putMany}.
   */
  async rebuild(entries: Source<Entry<Payload>>, options: RebuildOptions<Payload> = {}): Promise<RebuildResult> {
    const { allowEmpty, ...resolved } = resolve("options", options, rebuildRules) as RebuildOptions<Payload>;
    assertIterable(entries);
    holdErrors(entries);
    return await this.#run("rebuild", async () => {
      const rebuild: Rebuild = { token: newToken(), batches: new Map() };
      await this.#maintenance.stage(rebuild.token, resolved.signal);
      const items = await this.#writeAll(entries, resolved, rebuild);
      if (items === 0 && !allowEmpty)
        throw new KitError("KIT_AUTOCOMPLETE_EMPTY", "The rebuild had no entries. Set `allowEmpty` to empty the index");
      await this.#maintenance.switchOver(rebuild, resolved.signal);
      this.#isDamaged = false;
      return { items };
    });
  }

  /** Counts the items and rows without changing them. */
  async inspect(options: CallOptions = {}): Promise<PrefixIndexInspection> {
    const { signal } = resolve("options", options, callRules);
    const shards = await this.#run("inspect", () => this.#maintenance.survey(signal));
    const sum = (count: "items" | "rows" | "ranked" | "staged"): number =>
      shards.reduce((total, shard) => total + Math.max(0, shard[count]), 0);
    const written = shards.find(({ settings }) => settings !== "");
    return {
      rules: written ? storedRules(this.#shards.rulesOf(written.settings)) : null,
      items: sum("items"),
      rows: sum("rows"),
      ranked: sum("ranked"),
      staged: shards.some(({ staged }) => staged >= 0) ? sum("staged") : null,
    };
  }

  /** Deletes the index, and ends a rebuild in progress. The next put starts a new index. */
  async purge(options: CallOptions = {}): Promise<void> {
    const { signal } = resolve("options", options, callRules);
    await this.#run("purge", () => this.#maintenance.purge(signal));
  }

  /**
   * Closes this object. Further calls reject with KitClosedError. Calls in flight may continue for up to `timeoutMs` (10,000), and then
   * reject. Your client stays open. Idempotent: the options of the first call apply.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#life.close(options, (deadline) => this.#life.untilIdle(deadline));
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #run<T>(operation: string, call: () => Promise<T>): Promise<T> {
    return this.#life.call(
      `autocomplete.${operation}`,
      () => ({ index: this.name }),
      () => {
        this.#shards.used();
        return call();
      },
    );
  }

  /** @throws {TypeError} this index cannot be searched for words in any order. */
  #assertHas(words: WordOrder): void {
    const { rules, shards } = this.#settings;
    if (words === "any-order" && (rules.match === "phrase" || shards > 1))
      throw new TypeError('Expected `words: "any-order"` only if `match` is not "phrase" and `shards` is 1');
  }

  #reportDamage(): void {
    if (this.#isDamaged) return;
    this.#isDamaged = true;
    this.emit("error", new DamagedIndexError(this.name));
  }

  async #writeAll(
    entries: Source<Entry<Payload>>,
    { onInvalid, signal }: PutManyOptions<Payload>,
    rebuild: Rebuild | undefined,
  ): Promise<number> {
    const { rules } = this.#settings;
    const rowsEach = rules.order === "weight" ? 1 + rules.rankedLength : 1;
    const ending = this.#life.signal;
    const ids = new Set<string>();
    let written = 0;
    let batch: Change[] = [];
    let rows = 0;
    let bytes = 0;
    let dueAt = performance.now() + batchMs;
    const flush = async (): Promise<void> => {
      dueAt = performance.now() + batchMs;
      if (batch.length === 0) return;
      const changes = batch;
      batch = [];
      rows = bytes = 0;
      ids.clear();
      ending.throwIfAborted();
      await this.#writer.write(changes, { op: newToken(), signal, rebuild });
      written += changes.length;
    };
    for await (const entry of untilAborted(entries, signal, ending)) {
      signal?.throwIfAborted();
      let put: CheckedEntry;
      let own: number;
      try {
        put = checkEntry(entry, this.#settings.maxPayloadBytes);
        own = this.#writer.check(put).starts.length * rowsEach;
      } catch (error) {
        if (!onInvalid) {
          await flush();
          throw error;
        }
        onInvalid(error as Error, entry);
        continue;
      }
      // Within one batch, two texts of one id would drop each other's rows in different shards.
      if (ids.has(put.id)) await flush();
      ids.add(put.id);
      batch.push({ put });
      rows += own;
      bytes += put.id.length + 3 * put.text.length + put.tail.length;
      const isFull = batch.length >= batchItems || rows >= batchRows || bytes >= batchBytes;
      if (isFull || performance.now() >= dueAt) await flush();
    }
    await flush();
    return written;
  }
}

/**
 * Creates an index object: one name, any number of callers. All objects with the same name share its data, in any process.
 *
 * Pass `redis` as a client from core's `connect()`, from ioredis, or from `fromNodeRedis()`. kit never closes or blocks it.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 *
 * @example
 * const cities = createPrefixIndex<{ country: string }>(redis, "cities", { order: "weight" });
 * await cities.put({ id: "2950159", text: "Berlin", weight: 3_426_354, payload: { country: "DE" } });
 * const { items } = await cities.suggest("be");
 */
export const createPrefixIndex = <Payload = unknown>(
  redis: RedisLike,
  name: string,
  options: PrefixIndexOptions = {},
): PrefixIndex<Payload> => new PrefixIndex<Payload>(redis, name, options);
