import { type ActivityEntry, isAfter } from "./activity.js";

/** The chats and the waits of one member in this process, or the waits for one chat. */
interface Interest {
  readonly chats: Set<string>;
  /** Each waiter, with whether it wakes for positions as well. */
  readonly waiters: Map<() => void, boolean>;
}

/** The state of a shard, as one connection has read it. */
export interface Tail {
  /** Entries up to this one are known; those after `since` are in `recent`. */
  last: string;
  since: string;
  readonly recent: ActivityEntry[];
}

/** A member and a chat may have the same name. */
export const ofMember = (member: string): string => `m${member}`;
export const ofChat = (chat: string): string => `c${chat}`;

/** The position in a shard that does not answer: nothing is known of it. */
export const ofLost = "";

/** How many entries of a shard are kept, for waits whose first read started before them. */
const mostRecent = 1_000;
/** How many members' chats are remembered between two waits. */
const mostInterests = 20_000;

/**
 * Decides which entry of the activity wakes which wait of a chat object. It is memory only: `Watcher` adds the waits, and
 * `BlockedReads` the entries.
 */
export class WaitRegistry {
  /** By the name of a member or chat. */
  readonly #interests = new Map<string, Interest>();
  readonly #byChat = new Map<string, Set<Interest>>();
  readonly #tails = new Map<number, Tail>();
  /** How many of the waits wake for positions. */
  #positionWaits = 0;

  has(name: string): boolean {
    return this.#interests.has(name);
  }

  /** The entries that were read of a shard; undefined: it has to be read anew. */
  tailOf(shard: number): Tail | undefined {
    return this.#tails.get(shard);
  }

  /** The present position in each shard. */
  positions(): readonly string[] {
    const length = Math.max(-1, ...this.#tails.keys()) + 1;
    return Array.from({ length }, (_, shard) => {
      const tail = this.#tails.get(shard);
      return tail ? `a ${tail.last}` : ofLost;
    });
  }

  /**
   * Starts to watch. One read returned both `positions`, of the reader, and `chats`, all its chats at that time. If two waits of a
   * member start at the same time, both read. The first one to call this decides, and new entries keep its record correct. False if joins may
   * have been missed since.
   */
  learn(name: string, positions: readonly string[], chats: readonly string[]): boolean {
    const ids = [...positions.entries()].flatMap(([shard, position]) =>
      position === ofLost ? [] : [[shard, position.slice("a ".length)] as const],
    );
    if (this.isBehind(positions)) {
      if (!ids.some(([shard, id]) => id === "0-0" && this.#tails.get(shard)?.since !== id)) return false;
      // The activity of a shard is gone, so its record is invalid: all waits read again.
      this.#tails.clear();
      this.forgetAll();
    }
    if (this.#interests.has(name)) return true;
    this.#makeRoom();
    const interest: Interest = { chats: new Set(), waiters: new Map() };
    this.#interests.set(name, interest);
    for (const chat of chats) this.#add(interest, chat);
    for (const [shard, id] of ids) {
      const tail = this.#tails.get(shard);
      if (!tail) this.#tails.set(shard, { last: id, since: id, recent: [] });
      else
        for (const entry of tail.recent)
          if (isAfter(entry.id, id) && entry.values.some((member) => ofMember(member) === name))
            this.#follow(interest, entry);
    }
    return true;
  }

  /** Adds a wait for a member or chat that is watched; returns a function that ends it. */
  add(name: string, wake: () => void, withPositions: boolean): () => void {
    const waiters = this.#interests.get(name)?.waiters;
    waiters?.set(wake, withPositions);
    this.#positionWaits += Number(withPositions);
    return () => {
      waiters?.delete(wake);
      this.#positionWaits -= Number(withPositions);
    };
  }

  /** Whether an entry after `positions` concerns the member or chat, or may have been missed. */
  mayHaveMissed(name: string, positions: readonly string[], withPositions: boolean): boolean {
    const interest = this.#interests.get(name);
    if (!interest) return true;
    return positions.some((position, shard) => {
      if (position === ofLost) return false;
      const id = position.slice("a ".length);
      const tail = this.#tails.get(shard);
      if (!position.startsWith("a ") || !tail || isAfter(tail.since, id)) return true;
      return tail.recent.some((entry) => isAfter(entry.id, id) && this.#concerns(interest, entry, withPositions));
    });
  }

  /** Whether entries after `positions` are no longer kept. */
  isBehind(positions: readonly string[]): boolean {
    return positions.some(
      (position, shard) =>
        position !== ofLost && isAfter(this.#tails.get(shard)?.since ?? "0-0", position.slice("a ".length)),
    );
  }

  /** Adds an entry, and wakes the waits that it concerns. */
  take(tail: Tail, entry: ActivityEntry): void {
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

  hasWaiters(): boolean {
    for (const { waiters } of this.#interests.values()) if (waiters.size > 0) return true;
    return false;
  }

  get hasPositionWaits(): boolean {
    return this.#positionWaits > 0;
  }

  /** Forgets what was read of these shards, and wakes all waiters. */
  forget(shards: readonly number[]): void {
    for (const shard of shards) this.#tails.delete(shard);
    this.forgetAll();
  }

  /** Wakes all waiters; the next waits start over. */
  forgetAll(): void {
    const interests = [...this.#interests.values()];
    this.#interests.clear();
    this.#byChat.clear();
    for (const interest of interests) wakeAll(interest);
  }

  /** Whether an entry is news in a chat of the member. A position is news if it is the member's own, or if all members may see it. */
  #concerns(interest: Interest, { chat, kind, values }: ActivityEntry, withPositions: boolean): boolean {
    if (!interest.chats.has(chat)) return false;
    const [member = "", , isOpen] = values;
    return (
      kind !== "p" || (withPositions && (isOpen !== undefined || this.#interests.get(ofMember(member)) === interest))
    );
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
  #follow(interest: Interest, { chat, kind }: ActivityEntry): void {
    if (kind === "j") this.#add(interest, chat);
    else if (kind === "l" || kind === "d") this.#delete(interest, chat);
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

/** `isMove`: only those that wake for positions. */
const wakeAll = ({ waiters }: Interest, isMove = false): void => {
  for (const [wake, withPositions] of [...waiters]) if (withPositions || !isMove) wake();
};
