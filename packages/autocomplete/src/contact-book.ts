import { type RedisLike } from "@kit/core";
import { type CloseOptions, custom, Deadline, inTime, ObjectLife, resolve, type RulesOf } from "@kit/core/toolkit";
import { BookCommands } from "./commands/book.js";
import { checkFolded, checkId, foldText, isUnsearchable, type Item, splitTail, tailOf } from "./entry.js";
import { foldPrefix } from "./fold/index.js";
import { bookKeys } from "./keys.js";
import { asTyped, isMatch, type Query, queryOf, type Suggestion, suggestionOf } from "./matching.js";
import {
  type BookSettings,
  bookSettings,
  bookSuggestRules,
  callRules,
  type CallOptions,
  type ChangeOptions,
  resolveChange,
  type ContactBookOptions,
  type SuggestOptions,
} from "./options.js";
import type { BookChange, StoredContact } from "./scripts/index.js";

/** The name and payload of a contact. */
export interface ContactCard<Payload = unknown> {
  /**
   * The name that is displayed and searched: up to 512 UTF-16 units.
   *
   * @default the stored one, or the id for a new contact
   */
  readonly text?: string | undefined;
  /**
   * Any value that JSON can represent. If you pass `text` without a payload, the stored payload is removed. Without `text`, the stored
   * name stays.
   */
  readonly payload?: Payload | undefined;
}

const cardRules = {
  text: custom((_name, text: string) => text),
  payload: custom((_name, payload: unknown) => payload),
} satisfies RulesOf<ContactCard>;

/** A contact. */
export interface Contact<Payload = unknown> extends Omit<Suggestion<Payload>, "weight"> {
  /**
   * The time at which a single event would weigh as much as all events of the contact, in epoch milliseconds of the server's clock.
   * With `ranking: "recent"` it is the time of the last event.
   */
  readonly score: number;
}

/** Contacts that match. */
export interface ContactSuggestions<Payload = unknown> {
  /** The matching contacts, the best first. */
  readonly items: readonly Contact<Payload>[];
  /** Whether more contacts match. */
  readonly hasMore: boolean;
  /**
   * Identifies the state of the book that was searched; empty if there is no book. A client that caches the book can compare versions.
   */
  readonly version: string;
}

/** A whole book. */
export interface ContactList<Payload = unknown> {
  /** All contacts, the best first. */
  readonly items: readonly Contact<Payload>[];
  /** The ids of blocked contacts, the latest first. */
  readonly blocked: readonly string[];
  readonly version: string;
}

interface BookItem extends Item {
  readonly score: number;
}

interface Cached {
  readonly version: string;
  readonly items: readonly BookItem[];
  readonly blocked: readonly string[];
}

/** The maximum number of blocks. A further block ends the oldest one. */
const mostBlocked = 1_000;

/**
 * The recent contacts of one owner: a small list, ranked by the last event or by how often and how recently events happen. Create it
 * with {@link createContactBook}.
 *
 * kit fetches the whole book once and searches it locally. It checks the book's version at most every `maxAgeMs`. So a keystroke costs
 * no round trip.
 *
 * The design follows the recent contacts of "Redis in Action" (J. L. Carlson, 2013, section 6.1). Frecency uses forward decay
 * (Cormode, Shkapenyuk, Srivastava, Xu, ICDE 2009).
 */
export class ContactBook<Payload = unknown> implements AsyncDisposable {
  readonly owner: string;
  readonly #settings: BookSettings;
  readonly #life: ObjectLife;
  readonly #commands: BookCommands;
  #cached: Cached | undefined;
  #freshUntil = new Deadline(-Infinity);
  #fetching: Promise<Cached> | undefined;
  /** The number of changes by this object. */
  #changes = 0;

  /** For this package only: use {@link createContactBook}. */
  constructor(redis: RedisLike, owner: string, options: ContactBookOptions) {
    this.owner = owner;
    this.#settings = bookSettings(options);
    const { prefix, isolate, deadlineMs } = this.#settings;
    // Before anything is attached: the owner may be invalid in a key.
    const keys = bookKeys(prefix, owner);
    this.#life = new ObjectLife(redis, { prefix, isolate }, "The contact book");
    this.#commands = new BookCommands(keys, this.#life.context, deadlineMs);
  }

  /**
   * Records one event with a contact, such as a message or a call. Resolves with false if the contact is blocked; then nothing was
   * changed. If the book already has `max` contacts, the lowest other contact is removed.
   *
   * @throws {InvalidEntryError} the id, the text or the payload cannot be stored; nothing was changed.
   * @throws {KitUnknownOutcomeError} the reply was lost. A repeated call with the error's `op` counts once, unless eight other changes
   *   came in between. Without an `op` the same call would count a second event.
   * @throws {KitUnavailableError} no server answered in time; nothing was changed.
   * @throws {TypeError | RangeError} an argument has the wrong type.
   */
  async record(id: string, card: ContactCard<Payload> = {}, options: ChangeOptions = {}): Promise<boolean> {
    const { op, isGiven, signal } = resolveChange(options);
    const { rules, halfLifeMs, max, keepMs } = this.#settings;
    const { text, payload } = resolve("card", card, cardRules) as ContactCard<Payload>;
    checkId(id);
    // Without a text the id is the text of a new contact. A card begins with NUL if it has only a payload.
    const tail = tailOf({ id, text: text ?? id, payload }, this.#settings.maxPayloadBytes);
    checkFolded(id, foldText(text ?? id, rules));
    const stored = text === undefined ? tail.slice(id.length) : tail;
    const args = { op, id, card: stored, halfLifeMs, max, keepMs };
    return await this.#change("record", () => this.#commands.record(args, isGiven, signal));
  }

  /** Removes a contact; the next event adds it again. Resolves with whether the book had it. */
  async remove(id: string, options: ChangeOptions = {}): Promise<boolean> {
    return await this.#forget("remove", id, options);
  }

  /**
   * Removes a contact, and keeps it out until you call {@link unblock}. Up to 1,000 contacts are blocked; a further block ends the
   * oldest block.
   */
  async block(id: string, options: ChangeOptions = {}): Promise<boolean> {
    return await this.#forget("block", id, options);
  }

  /** Ends a block: the next event adds the contact again. Resolves with whether the contact was blocked. */
  async unblock(id: string, options: ChangeOptions = {}): Promise<boolean> {
    return await this.#forget("unblock", id, options);
  }

  /** Returns the whole book. */
  async list(options: CallOptions = {}): Promise<ContactList<Payload>> {
    const { signal } = resolve("options", options, callRules);
    const { items, blocked, version } = await this.#run("list", () => this.#book(signal));
    return { items: items.map((item) => this.#contactOf(item, queryOf("", "in-order"))), blocked, version };
  }

  /**
   * Returns the contacts with a word that starts with `query`, the best first; for an empty query, all contacts. It costs a round trip
   * only if the book was not fetched or checked within `maxAgeMs`. A query of more than 512 characters matches nothing.
   *
   * @throws {KitUnavailableError} no server answered in time, and there is no fetched book, or it is too old.
   */
  async suggest(query: string, options: Omit<SuggestOptions, "typos"> = {}): Promise<ContactSuggestions<Payload>> {
    const { limit, words, signal } = resolve("options", options, bookSuggestRules);
    if (typeof query !== "string") throw new TypeError(`Expected \`query\` to be a string, got ${typeof query}`);
    const { items, version } = await this.#run("suggest", () => this.#book(signal));
    if (isUnsearchable(query)) return { items: [], hasMore: false, version };
    const typed = queryOf(foldPrefix(query, this.#settings.rules.fold), words);
    const found = items.filter((item) => isMatch(item, typed));
    const shown = asTyped(found, query, this.#settings.rules)
      .slice(0, limit)
      .map((item) => this.#contactOf(item, typed));
    return { items: shown, hasMore: found.length > limit, version };
  }

  /** Deletes the book and its blocks. */
  async purge(options: CallOptions = {}): Promise<void> {
    const { signal } = resolve("options", options, callRules);
    await this.#run("purge", () => this.#commands.purge(signal));
    this.#expire();
  }

  /**
   * Closes this object. Further calls reject with KitClosedError. It waits up to `timeoutMs` (10,000) for calls in flight. Your client
   * stays open. Idempotent: the options of the first call apply.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#life.close(options, (deadline) => this.#life.untilIdle(deadline));
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #run<T>(operation: string, call: () => Promise<T>): Promise<T> {
    // An owner may be a person, so traces do not name it.
    return this.#life.call(`autocomplete.book.${operation}`, () => ({}), call);
  }

  async #forget(action: "remove" | "block" | "unblock", id: string, options: ChangeOptions): Promise<boolean> {
    const { op, signal } = resolveChange(options);
    const args = { op, action, id: checkId(id), max: mostBlocked, keepMs: this.#settings.keepMs };
    return await this.#change(action, () => this.#commands.forget(args, signal));
  }

  async #change(operation: string, call: () => Promise<BookChange>): Promise<boolean> {
    try {
      const { isDone } = await this.#run(operation, call);
      return isDone;
    } finally {
      // Even if the reply was lost, since the change may have been made.
      this.#expire();
    }
  }

  /** The next read fetches again: a fetch under way may not include the change. */
  #expire(): void {
    this.#changes++;
    this.#freshUntil = new Deadline(-Infinity);
    this.#fetching = undefined;
  }

  async #book(signal: AbortSignal | undefined): Promise<Cached> {
    signal?.throwIfAborted();
    if (this.#cached && this.#freshUntil.remainingMs > 0) return this.#cached;
    // Shared by all concurrent callers, so no caller's signal ends it.
    this.#fetching ??= this.#fetch();
    return await inTime(this.#fetching, { signal });
  }

  async #fetch(): Promise<Cached> {
    const { maxAgeMs } = this.#settings;
    const changes = this.#changes;
    const before = this.#cached;
    const until = new Deadline(performance.now() + maxAgeMs);
    try {
      const { version, content } = await this.#commands.fetch(before?.version ?? "-");
      const cached = content
        ? { version, items: content.contacts.map((one) => this.#itemOf(one)), blocked: content.blocked }
        : (before ?? { version, items: [], blocked: [] });
      if (changes === this.#changes) {
        this.#cached = cached;
        this.#freshUntil = until;
      }
      return cached;
    } finally {
      if (changes === this.#changes) this.#fetching = undefined;
    }
  }

  #itemOf({ id, score, card }: StoredContact): BookItem {
    const { text, payload } = splitTail(card);
    return { id, text, payload, score, weight: 0, ...foldText(text, this.#settings.rules) };
  }

  #contactOf(item: BookItem, query: Query): Contact<Payload> {
    const { id, text, payload, ranges } = suggestionOf<Payload>(item, query, this.#settings.rules);
    return { id, text, payload, ranges, score: item.score };
  }
}

/**
 * Creates a contact book object of one owner. All objects of the same owner share its data, in any process.
 *
 * Pass `redis` as a client from core's `connect()`, from ioredis, or from `fromNodeRedis()`. kit never closes or blocks it.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 * @throws {KitError} `KIT_NAME`: the owner cannot be part of a key.
 *
 * @example
 * const book = createContactBook(redis, "user:1", { ranking: "frecent" });
 * await book.record("user:7", { text: "Jean-Luc Picard" });
 * const { items } = await book.suggest("pi");
 */
export const createContactBook = <Payload = unknown>(
  redis: RedisLike,
  owner: string,
  options: ContactBookOptions = {},
): ContactBook<Payload> => new ContactBook<Payload>(redis, owner, options);
