import { KitClosedError } from "@kit/core";
import { atDeadline, Deadline, withCaller } from "@kit/core/toolkit";
import type { Found } from "./commands/shard-reader.js";
import { foldPrefix } from "./fold/index.js";
import { isUnsearchable } from "./entry.js";
import { asTyped, isSpecific, queryOf, select, suggestionOf, type Suggestions } from "./matching.js";
import { mostItems, type ResolvedSession } from "./options.js";

/** The answer of a session to a keystroke. */
export interface SessionAnswer<Payload = unknown> extends Suggestions<Payload> {
  /** The text that was typed. */
  readonly query: string;
  /** Whether an earlier answer was enough, without a call to the server. */
  readonly isLocal: boolean;
}

/** Queries the server for at most `limit` items. */
export type Search = (query: string, limit: number, signal: AbortSignal) => Promise<Found>;

interface Cached {
  readonly found: Found;
  readonly limit: number;
  readonly until: Deadline;
}

interface Pending {
  readonly query: string;
  readonly answer: Promise<Found>;
}

/** How many old answers are kept. They are searched one by one. */
const mostCached = 32;

/**
 * One search box. The latest keystroke wins, and a longer text is answered from earlier answers if the result is certain. Create it
 * with `index.session()`. It opens no connection, and its only timer is `debounceMs`.
 */
export class SuggestSession<Payload = unknown> {
  readonly #search: Search;
  readonly #resolved: ResolvedSession;
  readonly #cached = new Map<string, Cached>();
  #pending: Pending | undefined;
  /** Ends the wait of the previous keystroke. */
  #supersede: (() => void) | undefined;
  #ending = new AbortController();
  #stopTimer: () => void = () => undefined;

  /** Only this package calls it. */
  constructor(search: Search, resolved: ResolvedSession) {
    this.#search = search;
    this.#resolved = resolved;
  }

  /**
   * Passes the text of the box to the session. Resolves with the suggestions, or with null as soon as the next call is made, so that
   * a late answer is never shown for a newer text.
   *
   * While letters are added or removed, kit narrows a complete answer locally. The result is exactly what the server would have
   * answered at most `maxAgeMs` ago. If a call for a shorter text is in flight, a keystroke first waits for its answer.
   *
   * @throws {KitClosedError} the session was closed.
   * @throws every error of `suggest()`, unless the next keystroke came first.
   */
  async type(query: string): Promise<SessionAnswer<Payload> | null> {
    if (typeof query !== "string") throw new TypeError(`Expected \`query\` to be a string, got ${typeof query}`);
    if (this.#ending.signal.aborted) throw new KitClosedError("The session");
    this.#supersede?.();
    const superseded = new Promise<null>((resolve) => (this.#supersede = () => resolve(null)));
    const isCurrent = this.#supersede;
    const answer = this.#answer(query, () => this.#supersede === isCurrent);
    // A superseded call has returned null: its failure concerns no caller.
    answer.catch(() => undefined);
    try {
      return await Promise.race([superseded, answer]);
    } catch (error) {
      throw withCaller(error);
    }
  }

  /** Ends the session: the call under way resolves with null. Idempotent. */
  close(): void {
    this.#ending.abort(new KitClosedError("The session"));
    this.#supersede?.();
    // There is no current keystroke: none continues, not even one that waits for an answer under way.
    this.#supersede = undefined;
    this.#stopTimer();
    this.#cached.clear();
  }

  async #answer(query: string, isCurrent: () => boolean): Promise<SessionAnswer<Payload> | null> {
    const known = this.#known(query);
    if (known) return this.#shown(query, known, true);
    const pending = this.#pending;
    if (pending && query !== pending.query && query.startsWith(pending.query)) {
      await pending.answer.catch(() => undefined);
      if (!isCurrent()) return null;
      const narrowed = this.#known(query);
      if (narrowed) return this.#shown(query, narrowed, true);
    }
    if (this.#resolved.debounceMs > 0) await this.#debounced();
    if (!isCurrent()) return null;
    return this.#shown(query, await this.#fetch(query), false);
  }

  async #debounced(): Promise<void> {
    const until = new Deadline(performance.now() + this.#resolved.debounceMs);
    // Only the latest keystroke has a timer, and a closed session has none: it would keep the process alive.
    this.#stopTimer();
    await new Promise<void>((resolve) => {
      this.#stopTimer = atDeadline(until, resolve);
    });
  }

  async #fetch(query: string): Promise<Found> {
    const limit = this.#prefetch(query);
    const answer = this.#search(query, limit, this.#ending.signal);
    const pending = { query, answer };
    this.#pending = pending;
    try {
      const found = await answer;
      const { text } = found.query;
      this.#cached.delete(text);
      const until = new Deadline(performance.now() + this.#resolved.maxAgeMs);
      this.#cached.set(text, { found, limit, until });
      const [oldest] = this.#cached.keys();
      if (this.#cached.size > mostCached && oldest !== undefined) this.#cached.delete(oldest);
      return found;
    } finally {
      if (this.#pending === pending) this.#pending = undefined;
    }
  }

  /** Four times the number for a shorter text that had more items. Soon the answer is complete, and further keystrokes cost nothing. */
  #prefetch(query: string): number {
    let most = this.#resolved.prefetch;
    if (isSpecific(query, {})) return mostItems;
    if (isUnsearchable(query)) return most;
    for (const [prefix, { found, limit }] of this.#cached)
      if (foldPrefix(query, found.rules.fold).startsWith(prefix)) most = Math.max(most, 4 * limit);
    return Math.min(most, mostItems);
  }

  /** The answer if it is certain without the server: that to the same query, or one from all matches of a shorter text. */
  #known(query: string): Found | undefined {
    for (const [prefix, { found, until }] of this.#cached) {
      if (until.remainingMs <= 0) {
        this.#cached.delete(prefix);
        continue;
      }
      if (isUnsearchable(query)) return undefined;
      const folded = foldPrefix(query, found.rules.fold);
      if (folded === prefix) return found;
      if (prefix === "" || found.hasMore || found.truncated || !folded.startsWith(prefix)) continue;
      const typed = queryOf(folded, this.#resolved.words);
      const items = select(found.items, typed, found.rules.order === "weight");
      // Only the server finds names for a query with a typing error.
      if (this.#resolved.typos === 0 || items.length >= this.#resolved.limit) return { ...found, query: typed, items };
    }
    return undefined;
  }

  #shown(
    query: string,
    { query: typed, rules, items, hasMore, truncated }: Found,
    isLocal: boolean,
  ): SessionAnswer<Payload> {
    const { limit } = this.#resolved;
    const shown = asTyped(items, query, rules)
      .slice(0, limit)
      .map((item) => suggestionOf<Payload>(item, typed, rules));
    return { query, items: shown, hasMore: hasMore || items.length > limit, truncated, isLocal };
  }
}
