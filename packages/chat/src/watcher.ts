import { KitClosedError, type KitError } from "@kit/core";
import {
  asKitError,
  backoffMs,
  Deadline,
  type ExclusiveConnection,
  newToken,
  onAbort,
  OutageReporter,
  pause,
  settled,
} from "@kit/core/toolkit";
import { Hearing } from "./hearing.js";
import type { Keys } from "./keys.js";
import { Reader } from "./reader.js";
import type { ChatStore } from "./store.js";
import { nowhere } from "./token.js";

/** An entry of a shard's activity. */
interface Entry {
  readonly id: string;
  readonly chat: string;
  readonly kind: string;
  /** A sequence, or names of members. */
  readonly values: readonly string[];
}

/** The chats and the waits of one member in this process, or of all that follow one chat. */
interface Interest {
  readonly chats: Set<string>;
  /** Each with whether it is told of positions. */
  readonly waiters: Map<() => void, boolean>;
}

/** The state of a shard, as one connection has read it. */
interface Tail {
  /** Entries up to this one are known; those after `since` are in `recent`. */
  last: string;
  since: string;
  readonly recent: Entry[];
}

/** A read blocks for this long and is then sent again, so that a silent connection is noticed. */
const blockMs = 10_000;
const answerMs = 2_000;
/** How many entries of a shard are kept for waits whose first read ended after them. */
const mostRecent = 1_000;
/** How many members' chats are remembered between two waits. */
const mostInterests = 20_000;
/** A name for reading the place of the shards; no member can have it. */
const nobody = newToken();
/** A member and a chat may have the same name. */
const ofMember = (member: string): string => `m${member}`;
const ofChat = (chat: string): string => `c${chat}`;
/** The largest number of shards. */
const mostConnections = 256;
const pageEntries = 500;
/** A single reconnect is not reported. */
const reportedAttempt = 2;

const isAfter = (one: string, other: string): boolean => {
  const [ms = "", count = ""] = one.split("-");
  const [otherMs = "", otherCount = ""] = other.split("-");
  return Number(ms) > Number(otherMs) || (Number(ms) === Number(otherMs) && Number(count) > Number(otherCount));
};

/** The reply of XREAD: nothing, pairs, or (in the newer protocol) names and entries in turn. */
const streamsOf = (reply: unknown): [name: string, entries: unknown[]][] => {
  const streams = (reply ?? []) as unknown[];
  if (typeof streams[0] !== "string") return streams as [string, unknown[]][];
  return streams.flatMap((name, index) =>
    index % 2 === 0 ? [[name as string, streams[index + 1] as unknown[]] as [string, unknown[]]] : [],
  );
};

const entriesOf = (raw: unknown): Entry[] =>
  (raw as [string, string[]][]).map(([id, [, chat = "", kind = "", ...rest]]) => ({
    id,
    chat,
    kind,
    values: rest.filter((_, index) => index % 2 === 0),
  }));

/**
 * Wakes waiters for news with a blocked read: one for all shards, on a Cluster one for each.
 *
 * The first wait of a member reads its chats; later joins and leaves in the activity keep them right. A new connection
 * continues after the last known entry, if the server still has it; otherwise all waiters are woken and read for themselves.
 */
export class Watcher {
  readonly #store: ChatStore;
  readonly #interests = new Map<string, Interest>();
  readonly #byChat = new Map<string, Set<Interest>>();
  readonly #tails = new Map<number, Tail>();
  /** Groups of shards that are being read, by their numbers: after each reconnect the store has new lists. */
  readonly #running = new Set<string>();
  readonly #closing = new AbortController();
  /** Of these reads, and of the listeners. */
  readonly outage: OutageReporter;
  readonly hearing: Hearing;
  /** Waits that are told of positions. */
  #hearers = 0;

  constructor(store: ChatStore, onError: (error: KitError) => void) {
    this.#store = store;
    this.outage = new OutageReporter(onError);
    this.hearing = new Hearing(store, onError);
  }

  /**
   * Resolves with true when there is or may be news behind a reader's place; with false at the deadline.
   *
   * @throws the error of the reader; `signal.reason`.
   */
  async wait(
    reader: Reader<unknown>,
    deadline: Deadline | undefined,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const { member, standing, hearing } = reader;
    const name = ofMember(member);
    const isWalking = (): boolean => !standing.parts.every((part) => part.startsWith("a "));
    for (
      let isFirst = true;
      isWalking() || !this.#interests.has(name) || this.#isBehind(standing.parts);
      isFirst = false
    ) {
      const isWithNames = isFirst || !isWalking();
      const shards = await reader.look(Infinity, isWithNames, signal);
      if (shards.some(({ changes, left, moved }) => changes.length + left.length + moved.length > 0)) return true;
      standing.parts.splice(0, Infinity, ...shards.map(({ part }) => part));
      if (shards.some(({ isMore }) => isMore) || !isWithNames) continue;
      const chats = shards.flatMap(({ names }) => names);
      if (!this.#learn(name, standing.parts, chats)) return true;
    }
    return await this.#wait(name, standing.parts, deadline, signal, hearing !== undefined);
  }

  /** The present place of the shards. Read the chat after this and before `waitFor`, and nothing is missed. */
  async standingFor(chat: string, signal: AbortSignal | undefined): Promise<readonly string[]> {
    const name = ofChat(chat);
    if (this.#interests.has(name))
      return Array.from({ length: this.#tails.size }, (_, shard) => `a ${this.#tails.get(shard)?.last ?? "0-0"}`);
    const { keys } = await this.#store.open(signal);
    const reader = new Reader(this.#store, nobody, nowhere(keys.shards), false);
    const parts = (await reader.look(1, false, signal)).map(({ part }) => part);
    this.#learn(name, parts, [chat]);
    return parts;
  }

  /** Resolves when something may have been added to a chat since `parts`, or at the deadline. */
  async waitFor(
    chat: string,
    parts: readonly string[],
    deadline: Deadline | undefined,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    await this.#wait(ofChat(chat), parts, deadline, signal);
  }

  /**
   * Begins to watch. `parts` and `chats` are from one read: the reader's place, and all its chats then. If two waits of a
   * member begin together, both read; the first to arrive here decides, and its record is kept right afterwards. False if
   * joins may have been missed since.
   */
  #learn(name: string, parts: readonly string[], chats: readonly string[]): boolean {
    const ids = parts.map((part) => part.slice("a ".length));
    if (this.#isBehind(parts)) {
      if (!ids.some((id, shard) => id === "0-0" && this.#tails.get(shard)?.since !== id)) return false;
      // The activity of a shard is gone, and so is the record of it: all waits read anew.
      this.#tails.clear();
      this.#forgetAll();
    }
    if (this.#interests.has(name)) return true;
    this.#makeRoom();
    const interest: Interest = { chats: new Set(), waiters: new Map() };
    this.#interests.set(name, interest);
    for (const chat of chats) this.#add(interest, chat);
    for (const [shard, id] of ids.entries()) {
      const tail = this.#tails.get(shard);
      if (!tail) this.#tails.set(shard, { last: id, since: id, recent: [] });
      else
        for (const entry of tail.recent)
          if (isAfter(entry.id, id) && entry.values.some((member) => ofMember(member) === name))
            this.#follow(interest, entry);
    }
    return true;
  }

  /** @throws `signal.reason` */
  async #wait(
    name: string,
    parts: readonly string[],
    deadline: Deadline | undefined,
    signal: AbortSignal | undefined,
    hears = false,
  ): Promise<boolean> {
    const { groups } = await this.#store.open(signal);
    const interest = this.#interests.get(name);
    if (!interest || this.#closing.signal.aborted || this.#mayHaveMissed(interest, parts, hears)) return true;
    return await settled<boolean>(
      { deadline, signal },
      ({ resolve }) => resolve(false),
      ({ resolve }) => {
        const wake = (): void => resolve(true);
        interest.waiters.set(wake, hears);
        this.#hearers += Number(hears);
        for (const group of groups) if (!this.#running.has(group.join())) void this.#run(group);
        return () => {
          interest.waiters.delete(wake);
          this.#hearers -= Number(hears);
        };
      },
    );
  }

  /** Wakes everybody and ends all connections. */
  close(): void {
    this.#closing.abort(new KitClosedError("The chat"));
    this.#forgetAll();
  }

  /** Whether an entry after `parts` concerns the member, or may have been missed. */
  #mayHaveMissed(interest: Interest, parts: readonly string[], hears: boolean): boolean {
    return parts.some((part, shard) => {
      const id = part.slice("a ".length);
      const tail = this.#tails.get(shard);
      if (!part.startsWith("a ") || !tail || isAfter(tail.since, id)) return true;
      return tail.recent.some((entry) => isAfter(entry.id, id) && this.#concerns(interest, entry, hears));
    });
  }

  /** Whether an entry is news in a chat of the member: a position is its own, or one that all members may know. */
  #concerns(interest: Interest, { chat, kind, values }: Entry, hears: boolean): boolean {
    if (!interest.chats.has(chat)) return false;
    const [member = "", , isOpen] = values;
    return kind !== "p" || (hears && (isOpen !== undefined || this.#interests.get(ofMember(member)) === interest));
  }

  /** Whether entries after `parts` are no longer kept. */
  #isBehind(parts: readonly string[]): boolean {
    return parts.some((part, shard) => isAfter(this.#tails.get(shard)?.since ?? "0-0", part.slice("a ".length)));
  }

  #add(interest: Interest, chat: string): void {
    interest.chats.add(chat);
    const all = this.#byChat.get(chat);
    if (all) all.add(interest);
    else this.#byChat.set(chat, new Set([interest]));
  }

  #delete(interest: Interest, chat: string): void {
    interest.chats.delete(chat);
    const all = this.#byChat.get(chat);
    all?.delete(interest);
    if (all?.size === 0) this.#byChat.delete(chat);
  }

  /** Applies an entry to a member that it names. */
  #follow(interest: Interest, { chat, kind }: Entry): void {
    if (kind === "j") this.#add(interest, chat);
    else if (kind === "l" || kind === "d") this.#delete(interest, chat);
  }

  #take(tail: Tail, entry: Entry): void {
    tail.last = entry.id;
    tail.recent.push(entry);
    if (tail.recent.length > mostRecent) tail.since = tail.recent.shift()?.id ?? tail.since;
    const isMove = entry.kind === "p";
    if (isMove || entry.kind === "s" || entry.kind === "r") {
      for (const interest of this.#byChat.get(entry.chat) ?? [])
        if (this.#concerns(interest, entry, true)) wakeAll(interest, isMove);
    } else
      for (const member of entry.values) {
        const interest = this.#interests.get(ofMember(member));
        if (!interest) continue;
        this.#follow(interest, entry);
        wakeAll(interest);
      }
  }

  /** Reads a group of shards until nobody waits, reconnecting as needed. */
  async #run(group: readonly number[]): Promise<void> {
    this.#running.add(group.join());
    const loop = `waiting for ${group.join()}`;
    const { signal } = this.#closing;
    let attempt = 0;
    // A client that its owner ended receives no news.
    while (this.#hasWaiters() && !signal.aborted && !this.#store.context.executor.isEnded) {
      let connection: ExclusiveConnection | undefined;
      try {
        const { keys } = await this.#store.open(signal);
        const pool = this.#store.context.pool("chat", mostConnections);
        connection = await pool.checkOut(keys.activity(group[0] ?? 0), Deadline.in(answerMs), signal);
        const stopListening = onAbort(signal, () => connection?.returnToPool(false));
        try {
          const isWhole = await this.#read(connection, keys, group, loop, () => {
            attempt = 0;
          });
          if (!isWhole) this.#forgetAll();
        } finally {
          stopListening();
        }
      } catch (error) {
        connection?.misrouted(replyOf(error));
        if (!signal.aborted && ++attempt >= reportedAttempt)
          this.outage.failed(loop, asKitError(error, "Waiting for messages"));
        await pause(Math.max(10, backoffMs(attempt + 1, 50, 1_000)), signal).catch(() => undefined);
      } finally {
        connection?.returnToPool(false);
      }
    }
    this.#running.delete(group.join());
    this.outage.ended(loop);
    for (const shard of group) this.#tails.delete(shard);
    this.#forgetAll();
  }

  /** Reads on one connection until nobody waits; false if the server no longer has all entries. */
  async #read(
    connection: ExclusiveConnection,
    keys: Keys,
    group: readonly number[],
    loop: string,
    onReply: () => void,
  ): Promise<boolean> {
    const names = group.map((shard) => keys.activity(shard));
    let isSure = false;
    while (this.#hasWaiters() && !this.#closing.signal.aborted) {
      const tails = group.map((shard) => this.#tails.get(shard));
      const lasts = tails.flatMap((tail) => (tail ? [tail.last] : []));
      if (lasts.length < tails.length) return false;
      if (!isSure) {
        const areThere = await this.#areThere(connection, names, lasts);
        this.outage.connected(loop);
        if (!areThere) return false;
      }
      if (this.#hearers > 0) void this.hearing.renew();
      const args = ["BLOCK", blockMs, "COUNT", pageEntries, "STREAMS", ...names, ...lasts];
      const reply = streamsOf(await connection.call("XREAD", args, blockMs + answerMs));
      onReply();
      this.outage.worked(loop);
      // The shards were read anew meanwhile, perhaps from an earlier entry.
      if (group.some((shard, index) => this.#tails.get(shard) !== tails[index])) return false;
      isSure = true;
      for (const [name, raw] of reply) {
        // After so many entries there may be more than the server keeps.
        if (raw.length === pageEntries) isSure = false;
        // The client may put a prefix of its own in front.
        const shard = group[names.findIndex((own) => name.endsWith(own))];
        const tail = this.#tails.get(shard ?? -1);
        if (tail) for (const entry of entriesOf(raw)) if (isAfter(entry.id, tail.last)) this.#take(tail, entry);
      }
    }
    return true;
  }

  /**
   * Whether the server still has the last known entry of each shard: then no later one was dropped or belongs to another
   * history.
   */
  async #areThere(connection: ExclusiveConnection, names: string[], lasts: string[]): Promise<boolean> {
    const found = await Promise.all(
      names.map((name, index) => connection.call("XRANGE", [name, lasts[index] ?? "", lasts[index] ?? ""], answerMs)),
    );
    return found.every((entries, index) => lasts[index] === "0-0" || (entries as unknown[]).length > 0);
  }

  #hasWaiters(): boolean {
    for (const { waiters } of this.#interests.values()) if (waiters.size > 0) return true;
    return false;
  }

  /** Wakes all waiters; the next waits begin anew. */
  #forgetAll(): void {
    const interests = [...this.#interests.values()];
    this.#interests.clear();
    this.#byChat.clear();
    for (const interest of interests) wakeAll(interest);
  }

  /** Forgets the oldest of the members that are not waiting. */
  #makeRoom(): void {
    if (this.#interests.size < mostInterests) return;
    for (const [name, interest] of this.#interests) {
      if (interest.waiters.size > 0) continue;
      this.#interests.delete(name);
      for (const chat of interest.chats) this.#delete(interest, chat);
      return;
    }
  }
}

/** `isMove`: only those that are told of positions. */
const wakeAll = ({ waiters }: Interest, isMove = false): void => {
  for (const [wake, hears] of [...waiters]) if (hears || !isMove) wake();
};

const replyOf = (error: unknown): string => (error instanceof Error ? error.message : "");
