import type { KitError } from "@kit/core";
import type { ChatCommands } from "../commands.js";
import type { Keys } from "../keys.js";
import { isPassing } from "../lost-shards.js";
import type { Change, MovedPosition, ReadReply, ShardChanges } from "../scripts/index.js";
import type { ChatStore } from "../store.js";
import { type Gap, type Message, messageOf } from "./message.js";
import type { ReaderPosition } from "./position.js";

/** New messages of one chat for a reader. */
export interface ChatNews<Body = unknown> {
  readonly chat: string;
  readonly messages: readonly Message<Body>[];
  /** How many messages of others the member has not acknowledged, including this page. */
  readonly unread: number;
  /** Earlier messages of the chat that the reader will not receive. */
  readonly gap: Gap | undefined;
  /**
   * Set if the reader's position is no longer part of the chat. `fork`: a failover lost messages that the reader had received; some
   * earlier messages are returned again. `epoch`: a new chat has the same name. `epoch` is also set if the chat is newer than the
   * token, and the server has no record of whether the reader had an earlier chat with this name.
   */
  readonly reset: "fork" | "epoch" | undefined;
}

/** A page for a reader. */
export interface News<Body> {
  readonly chats: readonly ChatNews<Body>[];
  /** Chats that the member has left, or was removed from, since the token was made. */
  readonly left: readonly string[];
  /**
   * With `positions`: the positions that moved since the token was made. These are the member's own, and in chats with `receipts` the
   * positions of all members. They are in the order of moving: a later position of the same member and chat replaces an earlier one.
   */
  readonly positions: readonly MovedPosition[];
  /** Whether you can fetch more now. */
  readonly more: boolean;
  /**
   * Shards of a Cluster whose node does not answer. The page has nothing from their chats, and the reader keeps its place in them. An
   * `error` event reports the error.
   */
  readonly unavailable: readonly number[];
}

/** The limits of a page. */
export interface Budget {
  readonly limit: number;
  readonly maxBytes: number;
  readonly signal: AbortSignal | undefined;
}

/** The most chats of one shard that are read for one page, however many messages it may have. */
const mostChats = 64;

/** About how many chats a token has at most; beyond that some messages may be returned twice. */
const mostDelivered = 1_000;

/** Of how many chats that the member has left a listener keeps the epoch. */
const mostLeft = 1_000;

/** The maximum number of chats that one script reads: Lua accepts only about 8,000 operands in one call. */
const mostRead = 1_000;

/** The result of one look at a shard. If it has an error, nothing was read. */
export interface ShardNews extends ShardChanges {
  readonly error?: KitError | undefined;
}

const unchanged = { isMore: false, changes: [], left: [], names: [], moved: [] };

/** A page of one chat. */
interface ChatPage<Body> {
  readonly news: ChatNews<Body>;
  readonly isCut: boolean;
}

/**
 * Reads the new messages of one member, page by page, from its position on. Writes nothing.
 *
 * The reader of a `fetch` lives for one call and remembers only chats that a page delivered in part (`keepsDelivered` false), so
 * that its token stays small. A listener remembers every chat, and so notices a fork even if the activity cannot show it.
 */
export class Reader<Body> {
  readonly member: string;
  readonly position: ReaderPosition;
  readonly #store: ChatStore;
  readonly #keepsDelivered: boolean;
  /** Renews the subscription to positions; undefined: this reader gets none. */
  readonly #subscribe: (() => Promise<void>) | undefined;
  /** Chats that the last page delivered only in part. */
  readonly #begun: Set<string>;
  /** Chats that the member has left, the oldest first. */
  readonly #left = new Set<string>();

  constructor(
    store: ChatStore,
    member: string,
    position: ReaderPosition,
    keepsDelivered: boolean,
    subscribe?: () => Promise<void>,
  ) {
    this.#store = store;
    this.member = member;
    this.position = position;
    this.#keepsDelivered = keepsDelivered;
    this.#subscribe = subscribe;
    this.#begun = new Set(position.delivered.keys());
  }

  get withPositions(): boolean {
    return this.#subscribe !== undefined;
  }

  /**
   * Finds the chats that may have news, shard by shard. With `names`, it returns all chats of the member as well. Skips lost shards,
   * unless all are lost.
   *
   * @throws {KitError} no shard answered, or one refused.
   */
  async look(limit: number, names: boolean, signal: AbortSignal | undefined): Promise<ShardNews[]> {
    const commands = await this.#store.open(signal);
    const { keys, groups } = commands;
    const { lost } = this.#store;
    const { shards } = this.position;
    const perShard = Math.min(mostChats, Math.max(1, Math.ceil(limit / keys.shards)));
    const areAllLost = groups.every(([shard = 0]) => lost.has(shard));
    const found: ShardNews[] = [];
    await Promise.all([
      this.#subscribe?.(),
      ...groups.map(async (group) => {
        const known = areAllLost ? undefined : lost.errorOf(group[0] ?? 0);
        const args = {
          user: this.member,
          limit: perShard,
          names: names ? 1 : 0,
          moves: this.#subscribe ? 1 : 0,
          positions: [...group.map((shard) => shards[shard] ?? ""), ...this.#begunIn(keys, group)],
        };
        const replies = known ?? (await this.#orLost(commands, group, commands.changes(group, args, signal)));
        for (const [index, shard] of group.entries()) {
          const before = shards[shard] ?? "";
          const stays = { ...unchanged, position: before };
          found[shard] = Array.isArray(replies) ? (replies[index] ?? stays) : { ...stays, error: replies };
          // A shard's activity never expires. So the server has lost its data, and perhaps the number of shards as well.
          if (/^a .*[^0-]/.test(before) && found[shard].position === "a 0-0") this.#store.recheck();
        }
      }),
    ]);
    const errors = found.flatMap(({ error }) => error ?? []);
    if (errors[0] && errors.length === found.length) throw errors[0];
    return found;
  }

  /** The reply, or on a Cluster the error of a group of shards that is lost from now on. */
  async #orLost<T>(commands: ChatCommands, group: readonly number[], reply: Promise<T>): Promise<T | KitError> {
    try {
      return await reply;
    } catch (error) {
      if (commands.groups.length === 1 || !isPassing(error)) throw error;
      const args = { user: this.member, limit: 1, names: 0, moves: 0, positions: group.map(() => "a 0-0") };
      this.#store.lost.add(group[0] ?? 0, error, () => commands.changes(group, args, undefined));
      return error;
    }
  }

  /**
   * Chats that were delivered in part: a reader without an activity id would miss the rest once another reader acknowledged all.
   */
  #begunIn(keys: Keys, group: readonly number[]): (string | number)[] {
    const { shards } = this.position;
    const isByPosition = (shard: number): boolean => /^$| -$/.test(shards[shard] ?? "");
    const numbers = new Map(group.flatMap((shard, index) => (isByPosition(shard) ? [[shard, index + 1]] : [])));
    if (numbers.size === 0) return [];
    const begun = [...this.#begun].flatMap((chat) => {
      const number = numbers.get(keys.shardOf(chat));
      return number === undefined ? [] : [number, chat];
    });
    return begun;
  }

  /** Reads the next page and moves past it. An empty page without `more` means there is nothing new. */
  async next({ limit, maxBytes, signal }: Budget): Promise<News<Body>> {
    const gone = new Set<string>();
    const left: string[] = [];
    const positions: MovedPosition[] = [];
    for (;;) {
      const { keys } = await this.#store.open(signal);
      const shards = await this.look(limit, false, signal);
      const wanted = shards.map((shard) => shard.changes.filter((change) => this.#isNews(change, gone)));
      const pages = await this.#read(shards, wanted, { limit, maxBytes, signal }, gone);
      const isCut = this.#moveOn(keys, shards, wanted, pages, gone);
      for (const [index, shard] of shards.entries())
        if (!isCut[index]) {
          left.push(...shard.left);
          positions.push(...shard.moved);
        }
      const chats = Array.from(pages.values(), ({ news }) => news).filter(
        ({ messages, gap, reset }) => messages.length > 0 || gap || reset,
      );
      const more = shards.some(({ isMore }, index) => isMore || isCut[index]);
      const unavailable = shards.flatMap(({ error }, shard) => (error ? [shard] : []));
      if (chats.length > 0 || left.length > 0 || positions.length > 0 || !more)
        return { chats, left, positions, more, unavailable };
    }
  }

  /** Whether a change is after what was already delivered. */
  #isNews({ chat, epoch, head, headAt }: Change, gone: ReadonlySet<string>): boolean {
    const last = this.position.delivered.get(chat);
    // After a failover, another message may have the same sequence. A chat that once lost all messages has a number after
    // its epoch.
    const isKnown = last?.epoch.split(".")[0] === epoch && last.seq === head && last.at === headAt;
    return !gone.has(chat) && !isKnown;
  }

  /**
   * Reads chats of all shards as far as there is room. Chats that no longer exist go to `gone`. Shards that are lost by now become as
   * those that a look has skipped.
   */
  async #read(
    shards: ShardNews[],
    wanted: Change[][],
    { limit, maxBytes, signal }: Budget,
    gone: Set<string>,
  ): Promise<Map<string, ChatPage<Body>>> {
    const commands = await this.#store.open(signal);
    const calls = commands.groups
      .map((group) => ({ group, all: group.flatMap((shard) => wanted[shard] ?? []) }))
      .filter(({ all }) => all.length > 0);
    const share = (total: number): number => Math.max(1, Math.floor(total / Math.max(1, calls.length)));
    const found = await Promise.all(
      calls.map(async ({ group, all }) => {
        const some = all.slice(0, Math.min(share(limit), mostRead));
        const chats = some.map(({ chat, epoch, position, from, start, head = "" }) => {
          // At the last delivered message, or where `changes` reported.
          const last = this.position.delivered.get(chat);
          return {
            name: chat,
            memberEpoch: epoch,
            startEpoch: last?.epoch ?? "",
            start: last ? `${String(last.seq)}-${String(last.at)}` : start,
            position,
            from,
            upTo: head,
          };
        });
        const args = { user: this.member, limit: share(limit), maxBytes: share(maxBytes), chats };
        const replies = await this.#orLost(commands, group, commands.read(args, signal));
        if (Array.isArray(replies)) return some.map((change, index) => [change, replies[index]] as const);
        for (const shard of group) {
          shards[shard] = { ...unchanged, position: this.position.shards[shard] ?? "", error: replies };
          wanted[shard] = [];
        }
        return [];
      }),
    );
    // This comes after all calls: if one fails, the page is requested again, and none of it counts as delivered.
    const pages = new Map<string, ChatPage<Body>>();
    for (const [change, reply] of found.flat())
      if (reply) pages.set(change.chat, this.#pageOf(change, reply));
      else gone.add(change.chat);
    return pages;
  }

  #pageOf(change: Change, reply: ReadReply): ChatPage<Body> {
    const { chat } = change;
    const { unread, epoch, reset, gap, isCut } = reply;
    if (isCut) this.#begun.add(chat);
    else this.#begun.delete(chat);
    const messages = reply.messages.map((message) => messageOf<Body>(chat, message));
    const last = messages.at(-1);
    if (last) this.position.delivered.set(chat, { epoch, seq: last.seq, at: last.at });
    // The chat has nothing for this reader up to its head. Later pages must not start with it again.
    else if (!isCut && change.head !== undefined && change.headAt !== undefined)
      this.position.delivered.set(chat, { epoch, seq: change.head, at: change.headAt });
    else if (reset || gap) this.position.delivered.delete(chat);
    return { news: { chat, messages, unread, gap, reset }, isCut };
  }

  /** Moves on in the shards that the page covered completely; returns whether it covered another only in part. */
  #moveOn(
    keys: Keys,
    shards: readonly ShardNews[],
    wanted: readonly (readonly Change[])[],
    pages: ReadonlyMap<string, ChatPage<Body>>,
    gone: ReadonlySet<string>,
  ): boolean[] {
    const { shards: positions, delivered } = this.position;
    const done = new Set<number>();
    const areCut = shards.map(({ position, isMore, left, error }, shard) => {
      // The reader stays where it was, even in partly delivered chats.
      if (error) return false;
      const isCut = wanted[shard]!.some(({ chat }) => !gone.has(chat) && pages.get(chat)?.isCut !== false);
      if (isCut) return true;
      // If messages after this part of the activity were read, they will appear again.
      const isAhead = isMore && positions[shard]!.startsWith("a ") && delivered.size < mostDelivered;
      positions[shard] = position;
      for (const chat of left) this.#forget(chat);
      if (!isAhead) done.add(shard);
      return false;
    });
    if (!this.#keepsDelivered && done.size > 0)
      for (const chat of delivered.keys()) if (done.has(keys.shardOf(chat))) delivered.delete(chat);
    return areCut;
  }

  /**
   * Forgets a chat that the member has left. A listener keeps the epochs of the chats that were left last, because a chat that is
   * created again has another epoch. It then starts with what the member may see.
   */
  #forget(chat: string): void {
    const { delivered } = this.position;
    const last = delivered.get(chat);
    delivered.delete(chat);
    this.#begun.delete(chat);
    if (!last || !this.#keepsDelivered) return;
    delivered.set(chat, { ...last, seq: 0, at: 0 });
    this.#left.delete(chat);
    this.#left.add(chat);
    if (this.#left.size <= mostLeft) return;
    const [oldest = ""] = this.#left;
    this.#left.delete(oldest);
    if (delivered.get(oldest)?.seq === 0) delivered.delete(oldest);
  }
}
